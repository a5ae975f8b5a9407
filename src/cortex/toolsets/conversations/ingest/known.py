"""Which records of a session are in the store, kept in memory while the session is being read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# About 130 bytes each; sessions that were not asked for lately are let go beyond this.
_MAX_KEYS = 100_000


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the events of a record are, and what named it when it was read."""

    mark: int = 0
    doc_id: int = 0
    events: int = 0


# A line never changes, so of most records nothing needs to be known but that they are there.
LINE = Stored()


class KnownRecords:
    """The records of the sessions that were asked for last; a session is known whole or not."""

    def __init__(self, max_keys: int = _MAX_KEYS) -> None:
        self._max_keys = max_keys
        self._sessions: dict[str, dict[str, Stored]] = {}

    def missing(self, session_ids: Iterable[str]) -> set[str]:
        """Return the sessions that must be looked up; the others are kept for longer."""
        wanted = set(session_ids)
        for session_id in wanted & self._sessions.keys():
            self._sessions[session_id] = self._sessions.pop(session_id)
        return wanted - self._sessions.keys()

    def put(self, found: Mapping[str, dict[str, Stored]]) -> None:
        """Keep what was looked up."""
        self._sessions.update(found)

    def of(self, session_id: str) -> dict[str, Stored]:
        """Return the records of a session that was looked up; the caller adds what it writes."""
        return self._sessions[session_id]

    def trim(self) -> None:
        """Let go of the sessions that were not asked for longest."""
        left = sum(map(len, self._sessions.values()))
        for session_id in list(self._sessions):
            if left <= self._max_keys:
                return
            left -= len(self._sessions.pop(session_id))

    def clear(self) -> None:
        """Forget everything, as after a write that failed."""
        self._sessions.clear()
