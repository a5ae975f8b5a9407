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
from cortex.toolsets.conversations.queries import Corpus, Ints, Postings, stream_key
from cortex.toolsets.conversations.terms import stem

Floats = NDArray[np.float64]

FUNCTION_WEIGHT = 0.25  # what a function word of the query counts
PREVIOUS, NEXT = 0.5, 0.25  # what a term in a neighbouring event counts
SESSION = 0.5  # share of the session's own score
CANDIDATES = 300
HEAD = 10  # hits by score alone; after them, sessions not shown yet come first

# Words that carry no subject. Rare in some corpora, so idf alone does not see it.
_FUNCTION_WORDS = frozenset(
    stem(word)
    for word in (
        "an and are as at be been but by can could did do does doing for from had has have he her"
        " hers him his how if in into is it its me my of on or our she should so than that the"
        " their them then there these they this those to was we were what when where which while"
        " who whom whose why will with would you your"
    ).split()
)


@dataclass(frozen=True, slots=True)
class Query:
    """The terms of a query with their weights and frequencies."""

    terms: tuple[str, ...]
    weights: Floats
    frequencies: tuple[int, ...]

    @classmethod
    def of(cls, terms: Sequence[str], frequencies: Mapping[str, int]) -> "Query":
        """Weigh the terms: function words count less, unless there is nothing else."""
        is_function = [term in _FUNCTION_WORDS for term in terms]
        weights = [1.0 if all(is_function) or not f else FUNCTION_WEIGHT for f in is_function]
        counts = tuple(frequencies.get(term, 0) for term in terms)
        return cls(tuple(terms), np.array(weights), counts)

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


def idf(docs: int, frequency: int) -> float:
    """Return the weight of a term that occurs in `frequency` of `docs`, as the seed has it."""
    docs = max(docs, frequency)
    return max(0.0, math.log(1 + (docs - frequency + 0.5) / (frequency + 0.5)))


@dataclass(frozen=True, slots=True)
class Scored:
    """Documents and what each is worth, in no order."""

    doc_id: Ints
    session: Ints
    bm25: Floats
    score: Floats
    matched: NDArray[np.int64]
    doc_len: Ints

    def only(self, keep: NDArray[np.bool_]) -> "Scored":
        """Return those for which `keep` holds."""
        return Scored(*(column[keep] for column in self._columns()))

    def best(self, count: int) -> "Scored":
        """Return the best by score, and all that are equal to the last of them."""
        if len(self.score) <= count:
            return self
        least = np.partition(self.score, -count)[-count]
        return self.only(self.score >= least)

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return (self.doc_id, self.session, self.bm25, self.score, self.matched, self.doc_len)


class Ranker:
    """Scores documents for one query."""

    def __init__(self, query: Query, corpus: Corpus, settings: Bm25Settings) -> None:
        self._query = query
        self._corpus = corpus
        self._k1 = max(settings.k1, 0.01)
        self._b = min(max(settings.b, 0.0), 1.0)
        self._idf = np.array([idf(corpus.docs, df) for df in query.frequencies])

    def candidates(self, postings: Postings, count: int = CANDIDATES) -> Ints:
        """Return the documents that may be among the best, by the postings of some terms."""
        docs, table, session, _, _ = self._table(postings)
        first = (self._query.weights @ table) + SESSION * self._session_scores(postings, session)
        best = np.argsort(-first, kind="stable")[:count]
        return docs[best]

    def plain(self, postings: Postings) -> Scored:
        """Score by the formula alone."""
        docs, table, session, _, length = self._table(postings)
        bm25 = table.sum(axis=0)
        return Scored(docs, session, bm25, bm25, np.count_nonzero(table, axis=0), length)

    def ranked(self, found: Postings, completed: Postings, candidates: Ints) -> Scored:
        """Score candidates by all steps; `completed` has their other terms."""
        both = _joined(found, completed)
        docs, table, session, keys, length = self._table(both)
        near = np.maximum(
            PREVIOUS * _neighbours(table, keys, -1), NEXT * _neighbours(table, keys, 1)
        )
        chosen = np.isin(docs, candidates)
        table, near, session = table[:, chosen], near[:, chosen], session[chosen]
        length = length[chosen]
        score = self._query.weights @ np.maximum(table, near)
        score += SESSION * self._session_scores(found, session)
        matched = np.count_nonzero(table, axis=0)
        return Scored(docs[chosen], session, table.sum(axis=0), score, matched, length)

    def _table(self, postings: Postings) -> tuple[Ints, Floats, Ints, Ints, Ints]:
        """Return documents, each term's worth in each, their sessions, stream keys and lengths."""
        docs, first, column = np.unique(postings.doc_id, return_index=True, return_inverse=True)
        tf = postings.tf.astype(np.float64)
        average = max(self._corpus.words / max(self._corpus.docs, 1), 1.0)
        norm = self._k1 * (1 - self._b + self._b * postings.doc_len / average)
        term = postings.term.astype(np.intp)
        table = np.zeros((len(self._query.terms), len(docs)))
        table[term, column] = self._idf[term] * tf * (self._k1 + 1) / (tf + norm)
        keys = stream_key(postings.doc_id, postings.position)[first]
        return docs, table, postings.session[first], keys, postings.doc_len[first]

    def _session_scores(self, postings: Postings, wanted: Ints) -> Floats:
        """Score the session of each document as if it were one document."""
        sessions, row = np.unique(postings.session, return_inverse=True)
        lengths = self._corpus.sessions
        total = max(len(lengths), 1)
        average = max(self._corpus.words / total, 1.0)
        length = np.array([lengths.get(int(s), 0) for s in sessions], dtype=np.float64)
        norm = self._k1 * (1 - self._b + self._b * length / average)
        scores = np.zeros(len(sessions))
        for term in np.unique(postings.term):
            of_term = postings.term == term
            tf = np.bincount(row[of_term], postings.tf[of_term], len(sessions))
            weight = self._query.weights[int(term)] * idf(total, int(np.count_nonzero(tf)))
            scores += weight * tf * (self._k1 + 1) / (tf + norm)
        return scores[np.searchsorted(sessions, wanted)]


def in_order(
    scored: Scored, moments: Mapping[int, float], uids: Mapping[int, str], *, head: int = HEAD
) -> list[int]:
    """Return places in `scored`: by score, then newest, then uid; then new sessions first."""
    places = sorted(
        range(len(scored.doc_id)),
        key=lambda i: (
            -float(scored.score[i]),
            -moments[int(scored.doc_id[i])],
            uids[int(scored.doc_id[i])],
        ),
    )
    seen = {int(scored.session[i]) for i in places[:head]}
    fresh, later = [], []
    for i in places[head:]:
        session = int(scored.session[i])
        (later if session in seen else fresh).append(i)
        seen.add(session)
    return places[:head] + fresh + later


def _joined(one: Postings, other: Postings) -> Postings:
    return Postings(
        np.concatenate([one.term, other.term]),
        np.concatenate([one.doc_id, other.doc_id]),
        np.concatenate([one.position, other.position]),
        np.concatenate([one.session, other.session]),
        np.concatenate([one.tf, other.tf]),
        np.concatenate([one.doc_len, other.doc_len]),
    )


def _neighbours(table: Floats, keys: Ints, step: int) -> Floats:
    """Return what stands beside each document: the column of the event before or after it."""
    order = np.argsort(keys)
    wanted = keys + np.uint64(1) if step > 0 else keys - np.uint64(1)
    at = np.searchsorted(keys, wanted, sorter=order)
    at = np.minimum(at, len(keys) - 1)
    beside = order[at] if len(keys) else at
    found = keys[beside] == wanted
    return np.where(found, table[:, beside], 0.0)
