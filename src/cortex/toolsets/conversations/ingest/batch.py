"""What is written together: some thousand records, and the checkpoints they reach."""

from dataclasses import dataclass, field

from cortex.toolsets.conversations.ingest.prepare import Prepared
from cortex.toolsets.conversations.ingest.values import (
    POSITION_BITS,
    POSITION_MASK,
    Checkpoint,
    Fault,
    session_hash,
)

__all__ = ["POSITION_BITS", "POSITION_MASK", "Batch", "FileDone", "session_hash"]


@dataclass(frozen=True, slots=True)
class FileDone:
    """A file that was read to its end, and how it looked when that began."""

    key: tuple[str, str]
    look: tuple[int, ...]


@dataclass(slots=True)
class Batch:
    """Records in the order in which they were read."""

    records: list[Prepared] = field(default_factory=list[Prepared])
    faults: list[Fault] = field(default_factory=list[Fault])
    checkpoints: dict[tuple[str, str], Checkpoint] = field(
        default_factory=dict[tuple[str, str], Checkpoint]
    )
    files_done: list[FileDone] = field(default_factory=list[FileDone])
    files_parsed: int = 0  # files in which there was something to read
    bytes_read: int = 0
    events: int = 0
    size_bytes: int = 0

    def extend(self, other: "Batch") -> None:
        """Add everything that another batch holds."""
        self.records += other.records
        self.faults += other.faults
        self.checkpoints |= other.checkpoints
        self.files_parsed += other.files_parsed
        self.bytes_read += other.bytes_read
        self.events += other.events
        self.size_bytes += other.size_bytes

    def add(self, record: Prepared) -> None:
        """Add a record."""
        self.records.append(record)
        self.events += len(record.events)
        self.size_bytes += len(record.raw[-1])

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to write."""
        return not (self.records or self.faults or self.checkpoints)
