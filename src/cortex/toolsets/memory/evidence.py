"""Evidence held against what it cites: lines of files, events of conversations.

Files and conversations come in as protocols; what cannot be looked up is kept, marked unchecked.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cortex.toolsets.memory.models import Evidence, Memory

_MAX_LINES = 5000
MAX_CHECKED = 50
"""Memories whose files are looked at for one answer."""


class Files(Protocol):
    """The files of a project."""

    async def lines(self, project: str, path: str) -> Sequence[str] | None:
        """Return the lines of a file, or None if it is not there or not text."""
        ...


class Conversations(Protocol):
    """What was said in past sessions."""

    async def has_event(self, event_uid: str) -> bool:
        """Tell whether there is such an event."""
        ...

    async def session_events(self, session_id: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the events of a session in order: event_uid, actor_role, text_content."""
        ...

    async def newest_session(self, project: str) -> str | None:
        """Return the session that was last written in a project, or anywhere."""
        ...


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """Looks at what evidence cites."""

    files: Files | None = None
    conversations: Conversations | None = None

    async def checked(self, evidence: Sequence[Evidence], project: str) -> tuple[Evidence, ...]:
        """Return the evidence as it is stored: lines with the hash they have now."""
        return tuple([await self._checked(item, project) for item in evidence])

    async def _checked(self, item: Evidence, project: str) -> Evidence:
        if item.kind == "file":
            lines = await self._lines(project, item.ref)
            cited = _cited(lines, item)
            if cited is None:
                return replace(item, is_checked=False)
            return replace(item, sha256=item.sha256 or cited, is_checked=True)
        if item.kind == "event" and self.conversations is not None:
            return replace(item, is_checked=await self.conversations.has_event(item.ref))
        return replace(item, is_checked=False)

    async def is_stale(self, memory: Memory) -> bool:
        """Tell whether a file the memory cites no longer has the lines it cites."""
        for item in memory.evidence:
            if item.kind != "file" or item.sha256 is None:
                continue
            lines = await self._lines(memory.project, item.ref)
            if self.files is not None and not _still_there(lines, item):
                return True
        return False

    async def stale(self, memories: Iterable[Memory]) -> frozenset[str]:
        """Return the ids of those that are stale."""
        with_files = [memory for memory in memories if memory.has_files][:MAX_CHECKED]
        return frozenset([memory.id for memory in with_files if await self.is_stale(memory)])

    async def is_unfounded(self, memory: Memory) -> bool:
        """Tell whether it cites an event that is not there."""
        if self.conversations is None:
            return False
        for item in memory.evidence:
            if item.kind == "event" and not await self.conversations.has_event(item.ref):
                return True
        return False

    async def _lines(self, project: str, path: str) -> Sequence[str] | None:
        return await self.files.lines(project, path) if self.files is not None else None


def _cited(lines: Sequence[str] | None, item: Evidence) -> str | None:
    """Return the hash of the cited lines, of the whole file where none are named."""
    if lines is None:
        return None
    start, end = _bounds(item, len(lines))
    return _digest(lines[start:end]) if start < end <= len(lines) else None


def _still_there(lines: Sequence[str] | None, item: Evidence) -> bool:
    if lines is None:
        return False
    if _cited(lines, item) == item.sha256:
        return True
    if item.start is None or len(lines) > _MAX_LINES:
        return False
    # Lines that only moved still show what they showed.
    start, end = _bounds(item, len(lines))
    span = end - start
    return any(_digest(lines[i : i + span]) == item.sha256 for i in range(len(lines) - span + 1))


def _bounds(item: Evidence, count: int) -> tuple[int, int]:
    if item.start is None:
        return 0, count
    return item.start - 1, item.end or item.start


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
