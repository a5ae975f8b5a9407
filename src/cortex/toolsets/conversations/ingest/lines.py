"""Complete lines of a file that grows: a line counts when its newline is there."""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import orjson

MAX_LINE_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


class Line(NamedTuple):
    """One line and where it lies; `raw` is None when it is too long to be read."""

    number: int
    offset: int
    end: int
    raw: bytes | None

    @property
    def size_bytes(self) -> int:
        """Return its length, newline included."""
        return self.end - self.offset


def next_line(file: BinaryIO, offset: int) -> int:
    """Return where the next line begins: past the newline of a line that was read without it."""
    if offset == 0:
        return 0
    file.seek(offset - 1)
    around = file.read(2)
    return offset + 1 if around[:1] != b"\n" and around[1:] == b"\n" else offset


def read_lines(
    file: BinaryIO,
    *,
    offset: int,
    line_no: int,
    max_line_bytes: int = MAX_LINE_BYTES,
    takes_rest: bool = False,
) -> Iterator[Line]:
    """Yield every complete line after `offset`; what follows the last newline waits for its own.

    With `takes_rest` it is a line as well, if it is JSON.
    """
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
    if takes_rest and not skipped and _is_object(rest):
        yield Line(number + 1, start, start + len(rest), rest)


def _is_object(raw: bytes) -> bool:
    try:
        return isinstance(orjson.loads(raw), dict)
    except orjson.JSONDecodeError:
        return False
