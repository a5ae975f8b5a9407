"""From the postings of a query to ranked events. Pure arithmetic; the store is asked elsewhere.

The steps and what each brought are in docs/explain/ranking.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortex.settings.models import Bm25Settings
from cortex.text.terms import FUNCTION_TERMS
from cortex.toolsets.conversations.documents import Documents, Places

Floats = NDArray[np.float64]

FUNCTION_WEIGHT = 0.25  # what a function word of the query counts
PREVIOUS, NEXT = 0.5, 0.25  # what a term in a neighbouring event counts
SESSION = 0.5  # share of the session's own score
CANDIDATES = 300
HEAD = 10  # hits by score alone; after them, sessions not shown yet come first


@dataclass(frozen=True, slots=True)
class Query:
    """The terms of a query with their weights and frequencies."""

    terms: tuple[str, ...]
    weights: Floats
    frequencies: tuple[int, ...]

    @classmethod
    def of(cls, terms: Sequence[str], frequencies: Mapping[str, int]) -> "Query":
        """Weigh the terms: function words count less, unless there is nothing else."""
        are_function = [is_function(term) for term in terms]
        weights = [1.0 if all(are_function) or not f else FUNCTION_WEIGHT for f in are_function]
        counts = tuple(frequencies.get(term, 0) for term in terms)
        return cls(tuple(terms), np.array(weights), counts)

    @property
    def subjects(self) -> list[str]:
        """Return the terms that carry a subject; all of them, if none does."""
        return [t for t, weight in zip(self.terms, self.weights, strict=True) if weight == 1.0]

    def essential(self, max_rows: int) -> list[int]:
        """Return the terms that choose candidates: the rarest content words, within a budget."""
        by_rarity = sorted(
            (i for i, docs in enumerate(self.frequencies) if docs and self.weights[i] == 1.0),
            key=lambda i: self.frequencies[i],
        )
        chosen, rows = [], 0
        for i in by_rarity:
            rows += self.frequencies[i]
            if chosen and rows > max_rows:
                break
            chosen.append(i)
        return chosen


def is_function(term: str) -> bool:
    """Tell whether a term is a word without a subject."""
    return term in FUNCTION_TERMS


def idf(docs: int, frequency: int) -> float:
    """Return the weight of a term that occurs in `frequency` of `docs`, as the seed has it."""
    docs = max(docs, frequency)
    return max(0.0, math.log(1 + (docs - frequency + 0.5) / (frequency + 0.5)))


@dataclass(frozen=True, slots=True)
class Postings:
    """Columns of equal length: which term of the query, in which document, how often."""

    term: Places
    place: Places  # of the document, among all
    tf: NDArray[np.uint16]

    @classmethod
    def none(cls) -> "Postings":
        """Return no postings."""
        return cls(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.uint16))

    def only(self, keep: NDArray[np.bool_]) -> "Postings":
        """Return those for which `keep` holds."""
        return Postings(self.term[keep], self.place[keep], self.tf[keep])

    def and_those(self, other: "Postings") -> "Postings":
        """Return both."""
        return Postings(
            np.concatenate([self.term, other.term]),
            np.concatenate([self.place, other.place]),
            np.concatenate([self.tf, other.tf]),
        )


@dataclass(frozen=True, slots=True)
class Scored:
    """Documents and what each is worth, in no order."""

    place: Places
    bm25: Floats
    score: Floats
    matched: NDArray[np.int64]

    def only(self, keep: NDArray[Any]) -> "Scored":
        """Return some of them, by a mask or by their indices."""
        return Scored(self.place[keep], self.bm25[keep], self.score[keep], self.matched[keep])

    def best(self, count: int) -> "Scored":
        """Return the best by score, and all that are equal to the last of them."""
        if len(self.score) <= count:
            return self
        least = np.partition(self.score, -count)[-count]
        return self.only(self.score >= least)


@dataclass(frozen=True, slots=True)
class _Table:
    """What each term is worth in each of some documents."""

    places: Places
    worth: Floats

    def of(self, places: Places) -> Floats:
        """Return the columns of these documents."""
        at = np.searchsorted(self.places, places)
        is_there = self.places[np.minimum(at, len(self.places) - 1)] == places
        return self.worth[:, np.where(is_there, at, len(self.places))]


class Ranker:
    """Scores documents for one query."""

    def __init__(self, query: Query, documents: Documents, settings: Bm25Settings) -> None:
        self._query = query
        self._documents = documents
        self._k1 = max(settings.k1, 0.01)
        self._b = min(max(settings.b, 0.0), 1.0)
        self._idf = np.array([idf(documents.ranked, df) for df in query.frequencies])

    def candidates(self, postings: Postings, count: int = CANDIDATES) -> Places:
        """Return the documents that may be among the best, by the postings of some terms."""
        worth = self._query.weights[postings.term] * self._worth(postings)
        first = np.bincount(postings.place, worth, len(self._documents))
        places = np.flatnonzero(first)
        scores = first[places] + SESSION * self._session_scores(postings)[self._sessions(places)]
        if len(places) <= count:
            return places
        least = np.partition(scores, -count)[-count]
        better = places[scores > least]
        return np.concatenate([better, places[scores == least][: count - len(better)]])

    def plain(self, postings: Postings) -> Scored:
        """Score by the formula alone."""
        total = np.bincount(postings.place, self._worth(postings), len(self._documents))
        places = np.flatnonzero(total)
        bm25: Floats = total[places].astype(np.float64)
        matched = np.bincount(postings.place, minlength=len(self._documents))[places]
        return Scored(places, bm25, bm25, matched)

    def ranked(self, found: Postings, completed: Postings, candidates: Places) -> Scored:
        """Score candidates by all steps; `completed` has their other terms."""
        before, has_before = self._documents.neighbours(candidates, -1)
        after, has_after = self._documents.neighbours(candidates, 1)
        is_looked_at = np.zeros(len(self._documents), np.bool_)
        for places in (candidates, before[has_before], after[has_after]):
            is_looked_at[places] = True
        both = found.and_those(completed)
        table = self._table(both.only(is_looked_at[both.place]))
        own = table.of(candidates)
        near = np.maximum(
            PREVIOUS * table.of(before) * has_before, NEXT * table.of(after) * has_after
        )
        score = self._query.weights @ np.maximum(own, near)
        score += SESSION * self._session_scores(found)[self._sessions(candidates)]
        return Scored(candidates, own.sum(axis=0), score, np.count_nonzero(own, axis=0))

    def _worth(self, postings: Postings) -> Floats:
        """Return what each posting adds to the formula."""
        tf = postings.tf.astype(np.float64)
        average = max(self._documents.words / max(self._documents.ranked, 1), 1.0)
        length = self._documents.columns["doc_len"][postings.place]
        norm = self._k1 * (1 - self._b + self._b * length / average)
        return self._idf[postings.term] * tf * (self._k1 + 1) / (tf + norm)

    def _table(self, postings: Postings) -> "_Table":
        places, column = np.unique(postings.place, return_inverse=True)
        # One column more than there are documents: what is in none of them is worth nothing.
        worth = np.zeros((len(self._query.terms), len(places) + 1))
        worth[postings.term, column] = self._worth(postings)
        return _Table(places, worth)

    def _sessions(self, places: Places) -> NDArray[Any]:
        return self._documents.columns["session"][places]

    def _session_scores(self, postings: Postings) -> Floats:
        """Score each session as if it were one document."""
        lengths = self._documents.session_words
        total = max(self._documents.sessions, 1)
        average = max(self._documents.words / total, 1.0)
        norm = np.maximum(self._k1 * (1 - self._b + self._b * lengths / average), 1e-9)
        cells = postings.term * len(lengths) + self._sessions(postings.place)
        size = len(self._query.terms) * len(lengths)
        tf = np.bincount(cells, postings.tf, size).reshape(-1, len(lengths))
        idfs = [idf(total, int(n)) for n in np.count_nonzero(tf, axis=1)]
        weights = self._query.weights * np.array(idfs)
        scores: Floats = weights @ (tf * (self._k1 + 1) / (tf + norm))
        return scores


def in_order(scored: Scored, documents: Documents, limit: int, *, head: int = HEAD) -> Places:
    """Return indices of the best: by score, then newest; after a head, new sessions come first.

    Those that are equal to the last are all there, so there may be more than `limit`.
    """
    at_ms = documents.columns["at_ms"][scored.place]
    sessions = documents.columns["session"][scored.place]
    by_score = np.lexsort((-at_ms, -scored.score))
    seen = set(sessions[by_score[:head]].tolist())
    fresh: list[int] = []
    later: list[int] = []
    for i in by_score[head:].tolist():
        (later if sessions[i] in seen else fresh).append(i)
        seen.add(sessions[i])
    order = np.concatenate([by_score[:head], np.array(fresh + later, dtype=np.intp)])
    end = min(limit, len(order))
    while 0 < end < len(order) and (scored.score[order[end]], at_ms[order[end]]) == (
        scored.score[order[end - 1]],
        at_ms[order[end - 1]],
    ):
        end += 1
    return order[:end]


def first_of_each(scored: Scored, documents: Documents) -> Scored:
    """Return each message once: what an agent wrote twice has the same words, role and session."""
    names = np.stack(
        [documents.columns[name][scored.place] for name in ("session", "class", "said")]
    )
    # The best of them, then the newest: what `unique` finds first.
    order = np.lexsort((-documents.columns["at_ms"][scored.place], -scored.score))
    _, first = np.unique(names[:, order], axis=1, return_index=True)
    return scored.only(order[first])
