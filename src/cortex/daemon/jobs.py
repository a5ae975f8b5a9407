"""Background jobs: each has an owner, is started again when it fails, and can be seen."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import anyio

from cortex.clock import Clock

log = logging.getLogger(__name__)

JobState = Literal["running", "backoff", "finished", "stopped"]

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
# A job that ran this long before it failed begins again with the shortest wait.
_STABLE_S = 60.0


@dataclass(slots=True)
class Job:
    """One job and how it is doing."""

    name: str
    owner: str  # the room that knows what it does
    work: Callable[[], Awaitable[None]]
    state: JobState = "stopped"
    restarts: int = 0
    last_error: str | None = None
    since: datetime | None = None


class Jobs:
    """All background jobs of the daemon."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[Job] = []

    def add(self, name: str, work: Callable[[], Awaitable[None]], *, owner: str) -> None:
        """Add a job; it starts with `run`."""
        self._jobs.append(Job(name, owner, work))

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    async def run(self) -> None:
        """Run every job until cancelled."""
        async with anyio.create_task_group() as group:
            for job in self._jobs:
                group.start_soon(self._supervise, job, name=f"job {job.name}")

    async def _supervise(self, job: Job) -> None:
        wait_s = _FIRST_WAIT_S
        try:
            while True:
                began = self._clock.monotonic()
                self._enter(job, "running")
                try:
                    await job.work()
                except Exception as error:  # whatever it is, the job is retried
                    job.last_error = f"{type(error).__name__}: {error}"
                    log.warning("job %s failed: %s", job.name, job.last_error, exc_info=True)
                else:
                    self._enter(job, "finished")
                    return
                if self._clock.monotonic() - began > _STABLE_S:
                    wait_s = _FIRST_WAIT_S
                self._enter(job, "backoff")
                await anyio.sleep(wait_s)
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                job.restarts += 1
        finally:
            if job.state != "finished":
                self._enter(job, "stopped")

    def _enter(self, job: Job, state: JobState) -> None:
        job.state = state
        job.since = self._clock.now()
