"""Files that wait to be read: what changed just now before what has been lying there."""

from collections.abc import Callable, Iterable

import anyio

from cortex.clock import Clock
from cortex.toolsets.conversations.ingest.coverage import Key
from cortex.toolsets.conversations.ingest.files import is_database
from cortex.toolsets.conversations.ingest.ingestor import Task

# A portion takes a few seconds, the longest that a change waits while much is being read.
_PORTION_BYTES = 32 * 1024 * 1024
_PORTION_FILES = 500
# A database tells of every write; looking into it more often than this finds no more.
_DATABASE_PAUSE_S = 1.0


class Backlog:
    """Files in the order in which they are to be read, each once."""

    def __init__(self, clock: Clock, portion_bytes: int = _PORTION_BYTES) -> None:
        self._clock = clock
        self._portion_bytes = portion_bytes
        self._urgent: dict[Key, Task] = {}
        self._rest: dict[Key, Task] = {}
        self._not_before: dict[Key, float] = {}
        self._wake = anyio.Event()

    def add(self, tasks: Iterable[Task], *, is_urgent: bool) -> None:
        """Add files; one that is urgent waits no longer among the others."""
        for task in tasks:
            if is_urgent:
                self._rest.pop(task.key, None)
                self._urgent.setdefault(task.key, task)
            elif task.key not in self._urgent:
                self._rest.setdefault(task.key, task)
        self._wake.set()

    def take(self, left: Callable[[Task], int]) -> list[Task]:
        """Return the next portion, measured by what is `left` of each; maybe nothing."""
        now_s = self._clock.monotonic()
        for waiting in (self._urgent, self._rest):
            portion: list[Task] = []
            size_bytes = 0
            for key, task in list(waiting.items()):
                if self._not_before.get(key, 0.0) > now_s:
                    continue
                portion.append(waiting.pop(key))
                size_bytes += left(task)
                if size_bytes >= self._portion_bytes or len(portion) >= _PORTION_FILES:
                    break
            if portion:
                return portion
        return []

    def leave(self, task: Task, pause_s: float) -> None:
        """Leave a database alone for a while."""
        if is_database(task.path):
            pause_s = max(pause_s, _DATABASE_PAUSE_S)
            self._not_before[task.key] = self._clock.monotonic() + pause_s

    async def wait(self) -> None:
        """Wait until there may be something to take."""
        waiting = self._urgent.keys() | self._rest.keys()
        times = [self._not_before[key] for key in waiting if key in self._not_before]
        if len(times) < len(waiting):
            return
        self._wake = anyio.Event()
        pause_s = max(0.0, min(times) - self._clock.monotonic()) if times else None
        with anyio.move_on_after(pause_s):
            await self._wake.wait()
