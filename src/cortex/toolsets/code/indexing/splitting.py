"""Cuts lines into pieces of a size that can be read and embedded, at the best places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a file, the last included; `text` is set where a single row had to be cut."""

    start: int
    end: int
    text: str | None = None


class Rows:
    """The lines of a file, with their sizes added up."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._sums = [0, *accumulate(len(line) + 1 for line in lines)]

    def chars(self, start: int, end: int) -> int:
        """Return how many characters the rows have, line ends included."""
        return self._sums[end + 1] - self._sums[start]

    def text(self, start: int, end: int) -> str:
        """Return the rows as they are in the file."""
        return "\n".join(self.lines[start : end + 1])

    def trimmed(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the rows without blank ones at both ends, or None if all are blank."""
        while start <= end and not self.lines[start].strip():
            start += 1
        while end >= start and not self.lines[end].strip():
            end -= 1
        return (start, end) if start <= end else None

    def split(self, start: int, end: int, max_chars: int) -> Iterator[Piece]:
        """Yield pieces of at most `max_chars`, cut at blank lines and small indentation."""
        while (left := self.trimmed(start, end)) is not None:
            start = left[0]
            last = self._last_that_fits(start, left[1], max_chars)
            if last < start:
                yield from self._cut_row(start, max_chars)
                start += 1
                continue
            if last < left[1]:
                last = self._best_end(start, last)
            kept = self.trimmed(start, last)
            if kept is not None:
                yield Piece(*kept)
            start = last + 1

    def _last_that_fits(self, start: int, end: int, max_chars: int) -> int:
        """Return the last row so that all from `start` fit, or `start - 1` if not even one does."""
        low, high = start - 1, end
        while low < high:
            middle = (low + high + 1) // 2
            if self.chars(start, middle) <= max_chars:
                low = middle
            else:
                high = middle - 1
        return low

    def _best_end(self, start: int, last: int) -> int:
        """Return where to cut in the later half: before the least indented row after a blank."""
        best, best_cost = last, (2, 10_000)
        for row in range(last, start + (last - start) // 2, -1):
            following = self.lines[row + 1]
            if not following.strip():
                continue
            is_joined = 0 if not self.lines[row].strip() else 1
            indent = len(following) - len(following.lstrip())
            if following.lstrip()[:1] in {"}", ")", "]"}:
                is_joined = 2
            if (is_joined, indent) < best_cost:
                best, best_cost = row, (is_joined, indent)
        return best

    def _cut_row(self, row: int, max_chars: int) -> Iterator[Piece]:
        line = self.lines[row]
        start = 0
        while start < len(line):
            end = min(len(line), start + max_chars)
            if end < len(line):
                space = line.rfind(" ", start + max_chars // 2, end)
                end = space + 1 if space > 0 else end
            if line[start:end].strip():
                yield Piece(row, row, line[start:end])
            start = end
