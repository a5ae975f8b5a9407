"""Finding memories by words and meaning. The only place that says which ones agents are given."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from cortex.toolsets.memory import queries
from cortex.toolsets.memory.changes import tag_mark
from cortex.toolsets.memory.models import Memory, Trust
from cortex.toolsets.memory.postings import Postings, rows_with
from cortex.toolsets.memory.scoring import Weights, relevance
from cortex.toolsets.memory.vectors import Floats, Likeness, VectorIndex
from cortex.toolsets.memory.words import query_terms

MAX_QUERY_TERMS = 32
# Postings read for one question: the rare words find, the common ones only order what was found.
_MAX_POSTINGS = 20_000
_CANDIDATES = 180
_MOST_CANDIDATES = 2000
_MEANT = 60
_NEW_CLAIM_POSTINGS = 5000
_SIMILAR = 32
# A claim that shares less than this with a new one neither repeats nor contradicts it.
_ALIKE = 0.3
_COMPARED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """For whom memories are recalled: where they are and which session it is."""

    session: str
    project: str
    trust: Trust | None = None
    projects: tuple[str, ...] | None = None  # None: every project
    tags: tuple[str, ...] = ()

    def may_have(self, memory: Memory) -> bool:
        """Tell whether a memory is given to it: only what is recalled, nothing it said itself."""
        is_own = memory.trust == "agent" and memory.session == self.session != ""
        return (
            memory.is_recalled
            and not is_own
            and (self.trust is None or memory.trust == self.trust)
            and (self.projects is None or memory.project in self.projects)
            and frozenset(self.tags) <= frozenset(memory.tags)
        )


@dataclass(frozen=True, slots=True)
class Match:
    """A memory that was found, and by what."""

    memory: Memory
    words: float
    meaning: float | None


class Recall:
    """Searches by words and meaning; keeps what makes that quick."""

    def __init__(self) -> None:
        self.postings = Postings()
        self.vectors: VectorIndex | None = None

    def find(
        self,
        connection: sqlite3.Connection,
        query: str,
        reader: Reader,
        *,
        vector: Floats | None,
        limit: int,
    ) -> list[Match]:
        """Return what matches a question, in no order yet; more than `limit` where there are."""
        weights = self.weights(connection, query_terms(query, MAX_QUERY_TERMS))
        room = max(_CANDIDATES, 3 * limit)
        rows = self._by_words(connection, weights, reader, _MOST_CANDIDATES)
        likeness = self._likeness(vector)
        if likeness is not None:
            rows = [*dict.fromkeys((*likeness.nearest(_MEANT), *rows))]
        matches: list[Match] = []
        # Most searches end with the first round; a narrow one may have to look further.
        for start in range(0, len(rows), room):
            matches += self._matches(
                connection,
                rows[start : start + room],
                reader,
                weights,
                likeness=likeness,
                limit=3 * limit,
            )
            if len(matches) >= limit:
                break
        return matches

    def _matches(
        self,
        connection: sqlite3.Connection,
        rows: Sequence[int],
        reader: Reader,
        weights: Weights,
        *,
        likeness: Likeness | None,
        limit: int,
    ) -> list[Match]:
        terms = queries.terms_of(connection, rows)
        words = {row: weights.words(found) for row, found in terms.items()}
        meant = {row: likeness.meaning(row) if likeness else None for row in words}
        score = {row: relevance(words[row], meant[row]) for row in words}
        best = sorted(score, key=lambda row: (-score[row], row))[:limit]
        memories = queries.by_rows(connection, best)
        return [
            Match(memories[row], words[row], meant[row])
            for row in best
            if row in memories and reader.may_have(memories[row])
        ]

    def _likeness(self, vector: Floats | None) -> Likeness | None:
        if vector is None or self.vectors is None or not len(self.vectors):
            return None
        return self.vectors.against(vector)

    def similar(
        self, connection: sqlite3.Connection, terms: Sequence[str]
    ) -> tuple[list[int], Weights]:
        """Return the rows of the memories most like a new claim, and how rare its terms are."""
        unique = list(dict.fromkeys(terms))[:MAX_QUERY_TERMS]
        weights = self.weights(connection, unique)
        rare = weights.rare(_NEW_CLAIM_POSTINGS)
        found = queries.terms_of(connection, self.postings.best(connection, rare, _SIMILAR))
        wanted = frozenset(unique)
        shared = {
            row: len(wanted.intersection(theirs)) / len(wanted.union(theirs))
            for row, theirs in found.items()
        }
        best = sorted(shared, key=lambda row: (-shared[row], row))[:_COMPARED]
        return [row for row in best if shared[row] >= _ALIKE], weights

    def weights(self, connection: sqlite3.Connection, terms: Sequence[str]) -> Weights:
        """Return what terms are worth here."""
        frequencies = self.postings.frequencies(connection, terms)
        return Weights.of(frequencies, *self.postings.size(connection))

    def _by_words(
        self, connection: sqlite3.Connection, weights: Weights, reader: Reader, limit: int
    ) -> list[int]:
        chosen = weights.rare(_MAX_POSTINGS)
        if not chosen:
            return []
        rows = self.postings.best(connection, chosen, limit)
        for tag in reader.tags:
            tagged = frozenset(rows_with(connection, tag_mark(tag), "marks").tolist())
            rows = [row for row in rows if row in tagged]
        return rows
