from collections.abc import Awaitable, Callable

import anyio
import pytest

from cortex.daemon.jobs import Job, Jobs
from fakes import FakeClock

pytestmark = pytest.mark.anyio


class Bench:
    """Jobs whose waits take no time and are written down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.jobs = Jobs(self.clock)
        self.waits: list[float] = []
        self.states: list[str] = []
        monkeypatch.setattr(anyio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.states += [job.state for job in self.jobs]
        self.clock.advance(seconds)
        await anyio.lowlevel.checkpoint()

    async def run(self, name: str, work: Callable[[], Awaitable[None]]) -> Job:
        """Run one job to its end."""
        self.jobs.add(name, work, owner="test")
        with anyio.fail_after(5):
            await self.jobs.run()
        return next(iter(self.jobs))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def failing(times: int, before: Callable[[], None] = lambda: None) -> Callable[[], Awaitable[None]]:
    """Return work that fails so many times and then ends well."""
    left = [times]

    async def work() -> None:
        before()
        left[0] -= 1
        if left[0] >= 0:
            raise LookupError(f"{left[0]} to go")

    return work


async def test_a_job_that_ends_well_is_finished(bench: Bench) -> None:
    job = await bench.run("once", failing(0))
    assert (job.state, job.restarts, job.last_error) == ("finished", 0, None)
    assert bench.waits == []


async def test_a_job_that_fails_is_started_again_after_ever_longer_waits(bench: Bench) -> None:
    job = await bench.run("shaky", failing(10))
    assert bench.waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert set(bench.states) == {"backoff"}
    assert (job.state, job.restarts) == ("finished", 10)


async def test_the_last_error_is_kept_and_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    job = await bench.run("shaky", failing(2))
    assert job.last_error == "LookupError: 0 to go"
    assert "job shaky failed: LookupError: 1 to go" in caplog.text


async def test_a_job_that_ran_long_begins_again_with_the_shortest_wait(bench: Bench) -> None:
    lengths = iter([0, 0, 0, 61, 0, 0])
    job = await bench.run("shaky", failing(5, lambda: bench.clock.advance(next(lengths))))
    assert bench.waits == [0.5, 1, 2, 0.5, 1]
    assert job.restarts == 5


async def test_jobs_that_are_stopped_say_so(bench: Bench) -> None:
    bench.jobs.add("for ever", anyio.sleep_forever, owner="test")
    bench.jobs.add("once", failing(0), owner="test")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.jobs.run)
            while [job.state for job in bench.jobs] != ["running", "finished"]:
                await anyio.lowlevel.checkpoint()
            bench.clock.advance(7)
            group.cancel_scope.cancel()
    forever, once = bench.jobs
    assert (forever.state, once.state) == ("stopped", "finished")
    assert forever.since == bench.clock.now()
    assert once.since != bench.clock.now()


async def test_one_failing_job_does_not_disturb_another(bench: Bench) -> None:
    seen: list[str] = []

    async def calm() -> None:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        seen.append("calm")

    bench.jobs.add("shaky", failing(3), owner="test")
    await bench.run("calm", calm)
    assert seen == ["calm"]
    assert [job.state for job in bench.jobs] == ["finished", "finished"]


async def test_a_job_that_was_not_started_is_stopped(bench: Bench) -> None:
    bench.jobs.add("later", failing(0), owner="test")
    (job,) = bench.jobs
    assert (job.state, job.since) == ("stopped", None)
