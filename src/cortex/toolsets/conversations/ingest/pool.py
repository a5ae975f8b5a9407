"""Line files read side by side, in worker processes while there is much to read."""

import gc
import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from cortex.toolsets.conversations.ingest.batch import Batch
from cortex.toolsets.conversations.ingest.fill import LineFiller
from cortex.toolsets.conversations.ingest.values import Checkpoint
from cortex.toolsets.conversations.ingest.worker import Filled, Worker, WorkerEnded
from cortex.toolsets.conversations.sources.catalog import Source
from cortex.toolsets.conversations.sources.reader import LineReader

log = logging.getLogger(__name__)

# Starting a process takes as long as reading this much.
_WORTH_BYTES = 4 * 1024 * 1024
_MAX_WORKERS = 4
# How many new objects set off a search for cycles, of which records have none: at the usual 700
# half of the time to unpickle a batch went into it.
_NEW_OBJECTS = 20_000


@dataclass(frozen=True, slots=True)
class LineFile:
    """A file of lines, and where to begin."""

    source: Source
    reader: LineReader
    start: Checkpoint
    left_bytes: int
    takes_rest: bool
    when_done: Callable[[Batch], None]


class LinePool:
    """Fills batches from several files at once; each file is read in its own order."""

    def __init__(self, filler: LineFiller, max_files: int) -> None:
        self._filler = filler
        self._size = max(1, min(max_files, os.cpu_count() or 1, _MAX_WORKERS))
        self._free: list[Worker] = []
        self._is_broken = False

    def batches(
        self, files: Sequence[LineFile], on_error: Callable[[LineFile, OSError], None]
    ) -> Iterator[Batch]:
        """Return batches that are full, but for the last."""
        is_worth = sum(file.left_bytes for file in files) >= _WORTH_BYTES
        size = self._size if is_worth and not self._is_broken else 1
        batch = Batch()
        waiting = iter(files)
        seldom = _collected_seldom() if is_worth else nullcontext()
        with seldom, ThreadPoolExecutor(size, thread_name_prefix="ingest-read") as threads:
            running: dict[Future[Filled], LineFile] = {}

            def begin(file: LineFile, start: Checkpoint) -> None:
                running[threads.submit(self._fill, file, start, is_worth)] = file

            for file in waiting:
                begin(file, file.start)
                if len(running) == size:
                    break
            while running:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    file = running.pop(done)
                    following = _taken(batch, file, done, on_error)
                    if following is not None:
                        begin(file, following)
                    elif (next_file := next(waiting, None)) is not None:
                        begin(next_file, next_file.start)
                if self._filler.is_full(batch):
                    yield batch
                    batch = Batch()
        yield batch

    def is_full(self, batch: Batch) -> bool:
        """Tell whether a batch should be written before more is read."""
        return self._filler.is_full(batch)

    def rest(self) -> None:
        """End the processes until there is much to read again."""
        while self._free:
            self._free.pop().close()

    def _fill(self, file: LineFile, start: Checkpoint, is_worth: bool) -> Filled:
        if is_worth and not self._is_broken:
            try:
                return self._filled_elsewhere(file, start)
            except WorkerEnded:
                log.warning("a reading process ended; going on without")
                self._is_broken = True
        batch = Batch()
        following = self._filler.fill(
            batch, file.source, file.reader, start, takes_rest=file.takes_rest
        )
        return batch, following

    def _filled_elsewhere(self, file: LineFile, start: Checkpoint) -> Filled:
        worker = self._free.pop() if self._free else Worker(self._filler)
        try:
            filled = worker.fill(file.source, start, takes_rest=file.takes_rest)
        except WorkerEnded:
            worker.close()
            raise
        except OSError:
            self._free.append(worker)
            raise
        self._free.append(worker)
        return filled


@contextmanager
def _collected_seldom() -> Generator[None]:
    """Let the interpreter look for cycles less often while many records are taken in."""
    usual = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _taken(
    batch: Batch,
    file: LineFile,
    done: Future[Filled],
    on_error: Callable[[LineFile, OSError], None],
) -> Checkpoint | None:
    """Add what was read to a batch; returns where to go on in the file, if there is more."""
    try:
        filled, following = done.result()
    except OSError as error:
        on_error(file, error)
        return None
    batch.extend(filled)
    if following is None:
        file.when_done(batch)
    return following
