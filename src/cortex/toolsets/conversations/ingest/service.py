"""Ingest as others see it: a job for the daemon, a reading on request, and how far it is."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import anyio
import anyio.to_thread

from cortex.clock import Clock
from cortex.errors import CortexError, InvalidParams
from cortex.settings.models import IngestSettings
from cortex.store.engine import Engine
from cortex.toolsets.conversations.forget_queries import ForgetQueries
from cortex.toolsets.conversations.ingest import globs
from cortex.toolsets.conversations.ingest.backlog import Backlog
from cortex.toolsets.conversations.ingest.clean import Cleaner
from cortex.toolsets.conversations.ingest.coverage import (
    Coverage,
    CoverageBook,
    Look,
    Progress,
    Tell,
)
from cortex.toolsets.conversations.ingest.documents import DocumentFiller
from cortex.toolsets.conversations.ingest.files import look_of
from cortex.toolsets.conversations.ingest.fill import LineFiller
from cortex.toolsets.conversations.ingest.ingestor import Ingestor, Task
from cortex.toolsets.conversations.ingest.pool import LinePool
from cortex.toolsets.conversations.ingest.queries import IngestQueries
from cortex.toolsets.conversations.ingest.removal import RowRemover
from cortex.toolsets.conversations.ingest.requested import requested
from cortex.toolsets.conversations.ingest.together import together
from cortex.toolsets.conversations.ingest.watch import Watcher
from cortex.toolsets.conversations.ingest.writer import BatchWriter
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.sources import catalog

# Of the time that databases take, at most a tenth is spent on them.
_REST_PER_WORK = 9.0
# After this long without a change, a last line without newline is taken for complete.
_STILL_S = 3.0
# Somebody waits for the whole, so pauses between portions are few.
_REQUESTED_BYTES = 512 * 1024 * 1024


class IngestService:
    """Reads the session files of agents, now or continually."""

    def __init__(
        self,
        engine: Engine,
        settings: IngestSettings,
        redactor: Redactor,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        self._sources = catalog.sources(settings.sources)
        self._book = CoverageBook(clock)
        self._backlog = Backlog(clock)
        self._round = anyio.Event()
        cleaner = Cleaner(redactor)
        limits = (settings.batch_size, settings.max_batch_bytes)
        lines = LineFiller(cleaner, settings.exclude_project_dirs, limits)
        documents = DocumentFiller(cleaner, lines.is_excluded, clock)
        queries = IngestQueries(engine)
        writer = BatchWriter(queries, RowRemover(engine), ForgetQueries(engine))
        pool = LinePool(lines, settings.max_file_workers)
        self._ingestor = Ingestor(queries, writer, documents, pool, self._book)

    async def run(self) -> None:
        """Read what is there, then what changes, for ever."""
        try:
            await self._ingestor.open()
            await together(self._watch, self._look_around, self._work)
        except CortexError as error:
            self._book.last_error = str(error)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._ingestor.rest()

    async def read(
        self, paths: Sequence[str] | None, harness: str | None, tell: Tell = lambda _: None
    ) -> Progress:
        """Read once: the configured sources, or every session file at or below these paths.

        Raises:
            InvalidParams: a path is not there, or nothing tells which agent wrote it.
        """
        await self._ingestor.open()
        if paths is None:
            if harness is not None and harness not in catalog.HARNESSES:
                known = ", ".join(catalog.HARNESSES)
                raise InvalidParams(f"unknown harness {harness!r}; known are {known}")
            tasks = await self._scan(is_asked=True)
            tasks = [task for task in tasks if harness in (None, task.source.harness)]
        else:
            tasks = await anyio.to_thread.run_sync(requested, paths, harness, self._sources)
        tasks = [replace(task, takes_rest=self._is_still(task)) for task in tasks]
        progress = Progress(len(tasks))
        progress.bytes = await anyio.to_thread.run_sync(self._left, tasks)
        tell(progress)
        backlog = Backlog(self._clock, _REQUESTED_BYTES)
        backlog.add(tasks, is_urgent=False)
        try:
            while portion := backlog.take(self._ingestor.left):
                await self._read(portion, progress, tell)
        finally:
            with anyio.CancelScope(shield=True):
                await self._ingestor.rest()
        progress.files_done, progress.bytes_done = progress.files, progress.bytes
        tell(progress)
        return progress

    def _is_still(self, task: Task) -> bool:
        """Tell whether nobody writes a file any more, as far as its look tells."""
        look = look_of(task.path)
        return bool(look) and self._clock.now().timestamp() - look[2] / 1e9 > _STILL_S

    def coverage(self) -> Coverage:
        """Return how much of the configured sources is in the store."""
        return self._book.coverage()

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Let somebody else change the store, while nothing is read."""
        return self._ingestor.alone()

    def look_again(self) -> None:
        """Look for files to read now, not at the next round."""
        self._round.set()

    async def _read(self, tasks: Sequence[Task], progress: Progress, tell: Tell) -> None:
        before = progress.events
        self._book.is_reading = True
        try:
            await self._ingestor.read(tasks, progress, tell)
        finally:
            self._book.is_reading = False
        if progress.events != before:
            self._on_change()

    async def _work(self) -> None:
        while True:
            portion = self._backlog.take(self._ingestor.left)
            if not portion:
                await self._ingestor.rest()
                await self._backlog.wait()
                continue
            began_s = self._clock.monotonic()
            await self._read(portion, Progress(), lambda _: None)
            spent_s = self._clock.monotonic() - began_s
            for task in portion:
                self._backlog.leave(task, spent_s * _REST_PER_WORK)

    async def _watch(self) -> None:
        watcher = Watcher(self._sources, self._settings.debounce_ms, self._changed, self.look_again)
        while True:
            await watcher.run()
            # Refused by the system, as when it has no watches left: tried again after a while.
            await anyio.sleep(self._settings.reconcile_interval_seconds)

    async def _look_around(self) -> None:
        """Look for what nobody told of: at the start, when folders come, and now and then."""
        is_first = True
        while True:
            self._round = anyio.Event()
            tasks = await self._scan()
            if not is_first or self._settings.backfill_on_start:
                self._backlog.add(tasks, is_urgent=False)
            is_first = False
            with anyio.move_on_after(self._settings.reconcile_interval_seconds):
                await self._round.wait()

    def _changed(self, tasks: Iterable[Task]) -> None:
        tasks = list(tasks)
        for task in tasks:
            self._book.see_one(task.key, look_of(task.path))
        self._backlog.add(tasks, is_urgent=True)

    async def _scan(self, *, is_asked: bool = False) -> list[Task]:
        """Return the files that are not read to their end, newest first.

        When somebody asks, this is the end of their last line, with a newline or not.
        """
        found = await anyio.to_thread.run_sync(self._found)
        self._book.see(((task.key, look) for task, look in found), {s.name for s in self._sources})
        fresh = [
            (task, look)
            for task, look in found
            if not self._book.is_settled(task.key, look)
            or (is_asked and self._ingestor.left(task) > 0)
        ]
        fresh.sort(key=lambda each: (-each[1][2], each[0].path))
        return [task for task, _ in fresh]

    def _found(self) -> list[tuple[Task, Look]]:
        tasks = [Task(s, path) for s in self._sources for path in globs.files_of(s)]
        looks = [(task, look_of(task.path)) for task in tasks]
        return [(task, look) for task, look in looks if look]

    def _left(self, tasks: Sequence[Task]) -> int:
        return sum(self._ingestor.left(task) for task in tasks)
