"""Reads session files into the store: once on request, and on and on in the daemon."""

import fnmatch
import glob
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from cortex.toolsets.conversations.ingest.batch import Batch, Checkpoint
from cortex.toolsets.conversations.ingest.files import FileFacts, look_at, moved_from, resume
from cortex.toolsets.conversations.ingest.fill import Filler
from cortex.toolsets.conversations.ingest.queries import IngestQueries
from cortex.toolsets.conversations.ingest.writer import BatchWriter
from cortex.toolsets.conversations.sources.catalog import Source

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """How far a reading is."""

    files: int = 0
    files_done: int = 0
    bytes: int = 0
    bytes_done: int = 0
    events: int = 0
    errors: int = 0


Tell = Callable[[Progress], None]


class Ingestor:
    """The one reader of session files; whoever wants files read comes here."""

    def __init__(self, queries: IngestQueries, writer: BatchWriter, filler: Filler) -> None:
        self._queries = queries
        self._writer = writer
        self._filler = filler
        self._known: dict[tuple[str, str], Checkpoint] = {}
        self._is_open = False
        self._turn = anyio.Lock()

    async def open(self) -> None:
        """Clear what a crash left and learn how far every file is."""
        if not self._is_open:
            await self._writer.recover()
            points = await self._queries.checkpoints()
            self._known = {(point.source_name, point.source_file): point for point in points}
            self._is_open = True

    async def read(self, sources: Sequence[Source], tell: Tell = lambda _: None) -> Progress:
        """Read everything new in the files of these sources."""
        async with self._turn:
            await self.open()
            todo = await anyio.to_thread.run_sync(self._todo, sources)
            progress = Progress(files=len(todo), bytes=sum(left for _, _, left in todo))
            batch = Batch()
            for source, start, left in todo:
                await self._read_file(batch, source, start, progress, tell)
                progress.files_done += 1
                progress.bytes_done += left
                tell(progress)
            await self._write(batch, progress)
            tell(progress)
            return progress

    async def _read_file(
        self, batch: Batch, source: Source, start: Checkpoint, progress: Progress, tell: Tell
    ) -> None:
        is_at_end = False
        while not is_at_end:
            try:
                is_at_end = await anyio.to_thread.run_sync(
                    self._filler.fill, batch, source, source.reader, start
                )
            except OSError as error:
                log.warning("%s cannot be read: %s", start.source_file, error.strerror)
                return
            start = batch.checkpoints.get((source.name, start.source_file), start)
            if self._filler.is_full(batch):
                await self._write(batch, progress)
                tell(progress)

    async def _write(self, batch: Batch, progress: Progress) -> None:
        if not batch:
            return
        reached = dict(batch.checkpoints)
        progress.errors += len(batch.faults)
        progress.events += await self._writer.write(batch)
        self._known |= reached
        batch.records.clear()
        batch.faults.clear()
        batch.checkpoints.clear()
        batch.events = batch.size_bytes = 0

    def _todo(self, sources: Iterable[Source]) -> list[tuple[Source, Checkpoint, int]]:
        """Return the files that have something new, where to begin, and how much that is."""
        todo: list[tuple[Source, Checkpoint, int]] = []
        for source in sources:
            for path in files_of(source):
                facts = look_at(path)
                if facts is None:
                    continue
                start = self._start(source, path, facts)
                if facts.size_bytes > start.offset:
                    todo.append((source, start, facts.size_bytes - start.offset))
        return todo

    def _start(self, source: Source, path: str, facts: FileFacts) -> Checkpoint:
        known = self._known.get((source.name, path))
        if known is not None:
            return resume(known, facts)
        moved = moved_from(facts, [p for p in self._known.values() if p.source_name == source.name])
        if moved is not None:
            return replace(moved, source_file=path)
        return Checkpoint(source.name, path, inode=facts.inode, head=facts.head)


def files_of(source: Source) -> list[str]:
    """Return the files of a source, in the order of their names."""
    pattern = os.path.expanduser(source.glob)
    found = glob.glob(pattern, recursive=True, include_hidden=True)
    return sorted(
        path
        for path in found
        if os.path.isfile(path) and not any(fnmatch.fnmatch(path, x) for x in source.excluded)
    )
