"""Many files at once, in worker processes."""

import os
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

from cortex.toolsets.code.indexing.work import Job, Outcome, Work
from cortex.toolsets.code.indexing.worker import Worker, WorkerEnded

_BATCH_FILES = 16
_MAX_WORKERS = 8


def outcomes(work: Work, jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Yield what came of each file, in any order, from as many processes as there are cores."""
    size = min(os.cpu_count() or 1, _MAX_WORKERS)
    pool = _Pool(work)
    try:
        with ThreadPoolExecutor(size, thread_name_prefix="index") as threads:
            waiting = _batches(jobs)
            running: set[Future[list[Outcome]]] = set()
            try:
                for batch in waiting:
                    running.add(threads.submit(pool.do, batch))
                    if len(running) >= size * 2:
                        done, running = wait(running, return_when=FIRST_COMPLETED)
                        for future in done:
                            yield from future.result()
                for future in running:
                    yield from future.result()
            finally:
                for future in running:
                    future.cancel()
    finally:
        pool.close()


def _batches(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    left = iter(jobs)
    while batch := list(islice(left, _BATCH_FILES)):
        yield batch


class _Pool:
    """The workers that wait for something to do."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def do(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Have a worker look at files; if it ends, find the file that ended it."""
        try:
            return self._asked(jobs)
        except WorkerEnded:
            if len(jobs) == 1:
                return [Outcome(path=jobs[0].path, problem="its parser failed")]
        return [outcome for job in jobs for outcome in self.do([job])]

    def _asked(self, jobs: Sequence[Job]) -> list[Outcome]:
        try:
            worker = self._free.get_nowait()
        except queue.Empty:
            worker = Worker(self._work)
        try:
            done = worker.do(jobs)
        except WorkerEnded:
            worker.close()
            raise
        self._free.put(worker)
        return done

    def close(self) -> None:
        """End all workers."""
        while not self._free.empty():
            self._free.get_nowait().close()
