"""Values of ingest: where a record stood, what it says, and the numbers that name things."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from cortex.toolsets.conversations.models import Event, Reading

# doc_id: the upper bits name the stream (one session in one file), the lower count its events.
POSITION_BITS = 20
POSITION_MASK = (1 << POSITION_BITS) - 1
# The last moment that the store's type can hold, in 2299.
_MAX_MOMENT_MS = 10_413_791_999_999


class Place(NamedTuple):
    """Where a record was read."""

    source_name: str
    harness: str
    provider: str
    source_file: str
    origin: str  # the file's name when it was first read
    generation: int
    line_no: int
    offset: int


class Record(NamedTuple):
    """One record: what it says, where it stood, and itself, secrets gone."""

    place: Place
    reading: Reading
    raw_json: str
    mark: int = 0  # names what a record said that may be rewritten; 0 for a line, which may not
    redactions: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that could not be read, or not wholly; `id` is the same when it is met again."""

    place: Place
    id: int
    kind: str
    text: str
    fragment: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a file is in the store, and what its reader remembers."""

    source_name: str
    source_file: str
    origin: str = ""
    inode: int = 0
    generation: int = 0
    offset: int = 0
    line_no: int = 0
    head: str = ""
    tail: str = ""
    carry: str = ""


def digest(*parts: object) -> int:
    """Return 64 bits that name these values."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def event_uid(harness: str, reading: Reading, event: Event) -> str:
    """Name an event by agent, session, record and place in it, not by what a parser made of it."""
    text = f"{harness}\0{event.session_id}\0{reading.key}\0{event.slot}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=4096)
def session_hash(session_id: str) -> int:
    """Number a session, for the index."""
    text = session_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def moment(milliseconds: int) -> int:
    """Return a moment as the store takes it; one that it cannot hold is none."""
    return milliseconds if 0 <= milliseconds <= _MAX_MOMENT_MS else 0
