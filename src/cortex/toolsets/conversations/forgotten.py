"""Values of forgetting: a rule says what went, and keeps it from coming back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Literal

Scope = Literal["session", "project", "before"]

# Later than any moment that the store can hold.
FOREVER_MS = 10_413_792_000_000


class State(IntEnum):
    """How far a rule is. In force from the first to the third."""

    REMOVING = 1
    REMOVED = 2
    ERASED = 3
    UNDONE = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants forgotten: a session, a folder, or everything before a moment."""

    scope: Scope
    value: str
    cutoff_ms: int = FOREVER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What was forgotten, and by whom."""

    rule_id: str
    wanted: Wanted
    principal: str
    at: datetime
    state: State = State.REMOVING
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # rows by table
    files: tuple[tuple[str, str], ...] = ()  # source and file


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rule would take away."""

    sessions: int = 0
    first: datetime | None = None
    last: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # rows by table

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to take away."""
        return not any(self.counts.values())


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is this folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
