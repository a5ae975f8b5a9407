"""Reads session files into the store: the next batch is filled while one is being written."""

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from cortex.toolsets.conversations.ingest.batch import Batch, FileDone
from cortex.toolsets.conversations.ingest.coverage import (
    CoverageBook,
    Key,
    Look,
    Progress,
    Tell,
)
from cortex.toolsets.conversations.ingest.documents import DocumentFiller, HalfWritten, is_unchanged
from cortex.toolsets.conversations.ingest.files import look_at, look_of, moved_from, resume
from cortex.toolsets.conversations.ingest.pool import LineFile, LinePool
from cortex.toolsets.conversations.ingest.queries import IngestQueries
from cortex.toolsets.conversations.ingest.together import together
from cortex.toolsets.conversations.ingest.values import Checkpoint
from cortex.toolsets.conversations.ingest.writer import BatchWriter
from cortex.toolsets.conversations.sources.catalog import Source
from cortex.toolsets.conversations.sources.reader import LineReader

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """A file to be read, and as what."""

    source: Source
    path: str
    takes_rest: bool = False  # a last line without newline counts: nobody writes it any more

    @property
    def key(self) -> Key:
        """Return what its checkpoint is kept under."""
        return self.source.name, self.path


class Ingestor:
    """The one reader of session files; whoever wants files read comes here, and waits in turn."""

    def __init__(
        self,
        queries: IngestQueries,
        writer: BatchWriter,
        documents: DocumentFiller,
        lines: LinePool,
        book: CoverageBook,
    ) -> None:
        self._queries = queries
        self._writer = writer
        self._documents = documents
        self._lines = lines
        self._book = book
        self._known: dict[Key, Checkpoint] = {}
        self._by_inode: dict[tuple[str, int], set[Key]] = {}
        self._is_open = False
        self._turn = anyio.Lock()

    async def read(self, tasks: Sequence[Task], progress: Progress, tell: Tell) -> None:
        """Read everything new in these files."""
        async with self._turn:
            await self._open()
            # Until all is written, an error leaves a batch that must be cleared away first.
            self._is_open = False
            await self._pump(tasks, progress, tell)
            self._is_open = True

    async def open(self) -> None:
        """Clear what a crash left and learn how far every file is."""
        async with self._turn:
            await self._open()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Read nothing while others change the store, and learn everything anew after."""
        async with self._turn:
            self._is_open = False
            yield
            await self._open()

    async def rest(self) -> None:
        """Let go of what is only needed while there is much to read."""
        async with self._turn:
            await anyio.to_thread.run_sync(self._lines.rest)

    def left(self, task: Task) -> int:
        """Return how many bytes of a file were not read yet, as far as its size tells."""
        look = look_of(task.path)
        known = self._known.get(task.key)
        return max(0, look[1] - (known.offset if known else 0)) if look else 0

    async def _open(self) -> None:
        if self._is_open:
            return
        await self._writer.recover()
        points = await self._queries.checkpoints()
        self._known.clear()
        self._by_inode.clear()
        for point in points:
            self._learn(point)
        offsets = {key: point.offset for key, point in self._known.items()}
        faults = await self._queries.count_faults()
        self._book.open(offsets, faults, await self._queries.redactions())
        self._is_open = True

    async def _pump(self, tasks: Sequence[Task], progress: Progress, tell: Tell) -> None:
        send, receive = anyio.create_memory_object_stream[Batch](1)
        batches = self._batches(tasks)

        async def fill() -> None:
            with send:
                while (batch := await anyio.to_thread.run_sync(next, batches, None)) is not None:
                    await send.send(batch)

        async def write() -> None:
            with receive:
                async for batch in receive:
                    await self._write(batch, progress)
                    tell(progress)

        await together(fill, write)

    async def _write(self, batch: Batch, progress: Progress) -> None:
        if not batch.is_empty:
            written = await self._writer.write(batch)
            progress.events += written.events
            progress.errors += len(written.faults)
            self._book.wrote(written)
        for point in batch.checkpoints.values():
            self._learn(point)
        for done in batch.files_done:
            self._book.settle(done)
        progress.bytes_done += batch.bytes_read
        progress.files_parsed += batch.files_parsed
        progress.files_done += len(batch.files_done)

    def _learn(self, point: Checkpoint) -> None:
        key = (point.source_name, point.source_file)
        self._known[key] = point
        self._by_inode.setdefault((point.source_name, point.inode), set()).add(key)
        self._book.reach(key, point.offset)

    def _batches(self, tasks: Sequence[Task]) -> Iterator[Batch]:
        """Read files, documents first; runs in a worker thread."""
        batch = Batch()
        lines: list[LineFile] = []
        for task in tasks:
            look = look_of(task.path)
            done = FileDone(task.key, look)
            try:
                if not look or self._is_done(task, look):
                    pass
                elif isinstance(reader := task.source.reader(task.path), LineReader):
                    file = self._line_file(task, reader, done, batch)
                    if file is not None:
                        batch.files_parsed += 1
                        lines.append(file)
                        continue
                else:
                    start = self._known.get(task.key) or Checkpoint(*task.key, task.path)
                    if look[1] and not is_unchanged(start, look):
                        batch.files_parsed += 1
                        for step in self._documents.fill(task.source, reader, start):
                            step(batch)
                            if self._lines.is_full(batch):
                                yield batch
                                batch = Batch()
            except HalfWritten:
                continue
            except OSError as error:
                self._failed(task.path, error)
                continue
            batch.files_done.append(done)
        yield batch
        yield from self._lines.batches(lines, lambda f, e: self._failed(f.start.source_file, e))

    def _is_done(self, task: Task, look: Look) -> bool:
        """Tell whether there is nothing to read in a file, as far as its look tells."""
        is_rest = task.takes_rest and self.left(task) > 0
        return self._book.is_settled(task.key, look) and not is_rest

    def _failed(self, path: str, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        log.warning("%s cannot be read: %s", path, reason)
        self._book.last_error = f"{path}: {reason}"

    def _line_file(
        self, task: Task, reader: LineReader, done: FileDone, batch: Batch
    ) -> LineFile | None:
        """Return where to read on, or None if there is nothing new."""
        start, is_moved = self._start(task, self._known.get(task.key))
        if is_moved:
            batch.checkpoints[task.key] = start
        left_bytes = done.look[1] - start.offset
        if not left_bytes:
            return None
        return LineFile(
            task.source,
            reader,
            start,
            left_bytes,
            task.takes_rest,
            lambda batch: batch.files_done.append(done),
        )

    def _start(self, task: Task, known: Checkpoint | None) -> tuple[Checkpoint, bool]:
        """Return where to begin, and whether the file was known by another name."""
        facts = look_at(task.path, known.offset if known else 0)
        if known is not None:
            return resume(known, facts), False
        same = self._by_inode.get((task.source.name, facts.inode), set[Key]())
        moved = moved_from(facts, [self._known[key] for key in same])
        if moved is not None:
            return replace(moved, source_file=task.path), True
        fresh = Checkpoint(*task.key, task.path, inode=facts.inode, head=facts.head)
        return fresh, False
