"""The words of a project in arrays: which chunks hold a term, and how often. Never changed."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cortex.toolsets.code.ranking import Floats, Ints

Counts = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Row:
    """The terms of one chunk by number as 32-bit integers, how often each, and its length."""

    terms: bytes
    counts: bytes
    words: int


class Vocabulary:
    """Numbers for terms. It only grows, so that the states that share it stay right."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, term: str) -> int | None:
        """Return the number of a term that some chunk has held."""
        return self._numbers.get(term)

    def row(self, counts: Mapping[str, int], words: int) -> Row:
        """Return a chunk's row, giving numbers to terms that are new."""
        numbers = self._numbers
        terms = array("i", [numbers.setdefault(term, len(numbers)) for term in counts])
        return Row(terms.tobytes(), bytes(counts.values()), words)


class Pieces:
    """Many small pieces of bytes in one large one."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._starts = array("q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> bytes:
        return bytes(self._data[self._starts[number] : self._starts[number + 1]])

    def add(self, piece: bytes) -> None:
        """Add a piece at the end."""
        self._data += piece
        self._starts.append(len(self._data))


@dataclass(frozen=True, slots=True)
class Postings:
    """All rows twice: by chunk, to be taken over by the next state, and by term, to be asked."""

    row_starts: NDArray[np.int64]
    row_terms: Ints
    row_counts: Counts
    words: Ints
    term_starts: NDArray[np.int64]
    term_chunks: Ints
    term_counts: Counts

    def row(self, chunk: int) -> Row:
        """Return the row of one chunk."""
        begin, end = self.row_starts[chunk], self.row_starts[chunk + 1]
        terms, counts = self.row_terms[begin:end], self.row_counts[begin:end]
        return Row(terms.tobytes(), counts.tobytes(), int(self.words[chunk]))

    def of_term(self, number: int | None) -> tuple[Ints, Floats]:
        """Return the chunks that hold a term, and how often each does."""
        if number is None or number >= len(self.term_starts) - 1:
            return np.empty(0, np.int32), np.empty(0, np.float32)
        begin, end = self.term_starts[number], self.term_starts[number + 1]
        return self.term_chunks[begin:end], self.term_counts[begin:end].astype(np.float32)


class Rows:
    """Rows on their way to become postings."""

    def __init__(self) -> None:
        self._terms, self._counts = bytearray(), bytearray()
        self._sizes, self._words = array("i"), array("i")

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, row: Row) -> None:
        """Add the row of the next chunk."""
        self._terms += row.terms
        self._counts += row.counts
        self._sizes.append(len(row.counts))
        self._words.append(row.words)

    def postings(self, vocabulary_size: int) -> Postings:
        """Return them all, by chunk and by term."""
        terms = np.frombuffer(self._terms, dtype=np.int32)
        counts = np.frombuffer(self._counts, dtype=np.uint8)
        sizes = np.array(self._sizes, dtype=np.int64)
        # NumPy sorts 16 bits by their digits, several times as fast.
        is_short = vocabulary_size <= np.iinfo(np.uint16).max
        order = np.argsort(terms.astype(np.uint16) if is_short else terms, kind="stable")
        of_chunk = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return Postings(
            row_starts=_starts(sizes),
            row_terms=terms,
            row_counts=counts,
            words=np.array(self._words, dtype=np.int32),
            term_starts=_starts(np.bincount(terms, minlength=vocabulary_size)),
            term_chunks=of_chunk[order],
            term_counts=counts[order],
        )


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
