"""Time and identity as parts that are passed in, so that tests can hold them still."""

import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class IdSource(Protocol):
    """Fresh identifiers."""

    def new(self) -> str: ...


class SystemClock:
    """The clock of this machine, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class RandomIds:
    """Random 128-bit identifiers."""

    def new(self) -> str:
        return uuid.uuid4().hex


def iso_utc(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC with milliseconds: `2026-01-02T03:04:05.678Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
