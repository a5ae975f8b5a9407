"""What is written together: some thousand records, and the checkpoints they reach."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cortex.toolsets.conversations.models import Event, Reading

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# doc_id: the upper bits name the stream (one session in one file), the lower count its events.
POSITION_BITS = 20
POSITION_MASK = (1 << POSITION_BITS) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record was read."""

    source_name: str
    harness: str
    provider: str
    source_file: str
    generation: int
    line_no: int
    offset: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record: what it says, where it stood, and itself, secrets gone."""

    place: Place
    reading: Reading
    raw_json: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that could not be read, or not wholly."""

    place: Place
    kind: str
    text: str
    fragment: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a file is in the store, and what its reader remembers."""

    source_name: str
    source_file: str
    inode: int = 0
    generation: int = 0
    offset: int = 0
    line_no: int = 0
    head: str = ""
    carry: str = ""


@dataclass(slots=True)
class Batch:
    """Records in the order in which they were read."""

    records: list[Record] = field(default_factory=list[Record])
    faults: list[Fault] = field(default_factory=list[Fault])
    checkpoints: dict[tuple[str, str], Checkpoint] = field(
        default_factory=dict[tuple[str, str], Checkpoint]
    )
    events: int = 0
    size_bytes: int = 0

    def add(self, record: Record) -> None:
        """Add a record."""
        self.records.append(record)
        self.events += len(record.reading.events)
        self.size_bytes += len(record.raw_json)

    def __bool__(self) -> bool:
        return bool(self.checkpoints)


def event_uid(harness: str, reading: Reading, event: Event) -> str:
    """Name an event by agent, session, record and place in it, not by what a parser made of it."""
    text = f"{harness}\0{event.session_id}\0{reading.key}\0{event.slot}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def stream_of(session_id: str, place: Place) -> int:
    """Number a stream: one session in one file as it was first read."""
    text = f"{session_id}\0{place.source_file}\0{place.generation}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> POSITION_BITS


def session_hash(session_id: str) -> int:
    """Number a session, for the index."""
    text = session_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def moment(milliseconds: int) -> datetime:
    """Return a moment as the store takes it."""
    return _EPOCH + timedelta(milliseconds=milliseconds)
