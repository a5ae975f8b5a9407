"""Complete lines of a file that grows: a line counts when its newline is there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAX_LINE_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line and where it lies; `raw` is None when it is too long to be read."""

    number: int
    offset: int
    end: int
    raw: bytes | None

    @property
    def size_bytes(self) -> int:
        """Return its length, newline included."""
        return self.end - self.offset


def read_lines(
    file: BinaryIO, *, offset: int, line_no: int, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Line]:
    """Yield every complete line after `offset`; what follows the last newline waits for its own."""
    file.seek(offset)
    number = line_no
    start = offset
    rest = b""
    skipped = 0  # bytes of a line that is too long, already let go
    while chunk := file.read(_CHUNK_BYTES):
        pieces = (rest + chunk).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            number += 1
            size_bytes = skipped + len(piece) + 1
            is_too_long = size_bytes > max_line_bytes
            yield Line(number, start, start + size_bytes, None if is_too_long else piece)
            start += size_bytes
            skipped = 0
        if skipped + len(rest) > max_line_bytes:
            skipped += len(rest)
            rest = b""
