"""Which memories have a word: read from FTS5 once, then kept in memory and kept current.

A row that was changed or forgotten may still be named here: whoever asks looks at the row itself.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Column = Literal["terms", "marks"]

_MAX_KEPT = 4_000_000
_RECOUNTED_AFTER = 2000


class Postings:
    """Rows by term, and how common terms are."""

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}
        self._added: dict[str, list[int]] = {}
        self._frequencies: dict[str, int] = {}
        self._kept = 0
        self._changes = 0
        self._size: tuple[int, float] | None = None

    def add(self, row: int, terms: Iterable[str]) -> None:
        """Say that a memory has these terms now."""
        for term in frozenset(terms):
            if term in self._frequencies:
                self._frequencies[term] += 1
            if term in self._rows:
                self._added.setdefault(term, []).append(row)
        self._changes += 1
        # Rows that went are still counted, so that counts are made anew from time to time.
        if self._size is None or self._changes >= min(_RECOUNTED_AFTER, self._size[0]):
            self._changes, self._size = 0, None
            self._frequencies.clear()

    def forget(self) -> None:
        """Know nothing any more: everything is read again."""
        self._rows.clear()
        self._added.clear()
        self._frequencies.clear()
        self._kept, self._size = 0, None

    def frequencies(self, connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many memories each term stands."""
        for term in terms:
            if term not in self._frequencies:
                self._frequencies[term] = frequency(connection, term, "terms")
        return {term: self._frequencies[term] for term in terms}

    def size(self, connection: sqlite3.Connection) -> tuple[int, float]:
        """Return how many memories there are, and how many terms one has on average."""
        if self._size is None:
            self._size = _size(connection)
        return self._size

    def rows(self, connection: sqlite3.Connection, term: str) -> Rows:
        """Return the memories that have a term."""
        known = self._rows.get(term)
        if known is None:
            known = rows_with(connection, term, "terms")
            self._keep(term, known)
        added = self._added.pop(term, None)
        if added:
            known = np.concatenate([known, np.array(added, np.int64)])
            self._rows[term] = known
        return known

    def _keep(self, term: str, rows: Rows) -> None:
        self._kept += len(rows)
        if self._kept > _MAX_KEPT:
            self._rows.clear()
            self._added.clear()
            self._kept = len(rows)
        self._rows[term] = rows

    def best(
        self, connection: sqlite3.Connection, weights: Mapping[str, float], limit: int
    ) -> list[int]:
        """Return the rows whose terms weigh most together, best first."""
        found = [(self.rows(connection, term), weight) for term, weight in weights.items()]
        highest = max((int(rows.max()) for rows, _ in found if len(rows)), default=-1)
        if highest < 0:
            return []
        score = np.zeros(highest + 1, np.float32)
        for rows, weight in found:
            score[rows] += weight  # a row that is named twice counts once
        limit = min(limit, len(score))
        top = np.argpartition(-score, limit - 1)[:limit]
        top = top[score[top] > 0]
        order = np.lexsort((-top, -score[top]))
        return [int(row) for row in top[order].tolist()]


def frequency(connection: sqlite3.Connection, term: str, column: Column) -> int:
    """Return in how many memories a term stands, or a mark."""
    row = connection.execute(
        "SELECT doc FROM memory_vocab WHERE term = ? AND col = ?", (term, column)
    ).fetchone()
    return int(row[0]) if row else 0


def rows_with(connection: sqlite3.Connection, term: str, column: Column) -> Rows:
    """Return the memories that have a term, or a mark, in order."""
    found = connection.execute(
        "SELECT rowid FROM memory_words WHERE memory_words MATCH ?", (f'{column} : "{term}"',)
    )
    return np.fromiter((row[0] for row in found), np.int64)


def _size(connection: sqlite3.Connection) -> tuple[int, float]:
    (chars,) = connection.execute(
        "SELECT avg(length(c0)) FROM"
        " (SELECT c0 FROM memory_words_content ORDER BY id DESC LIMIT 2000)"
    ).fetchone()
    (highest,) = connection.execute("SELECT max(id) FROM memory_words_content").fetchone()
    # A term and its space take about six and a half characters.
    return int(highest or 0), float(chars or 65.0) / 6.5
