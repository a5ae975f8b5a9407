from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from cortex.errors import RateLimited, Unavailable
from cortex.gateway.limits import RateLimiter
from cortex.gateway.spec import RateLimit
from cortex.state.calls import CallLog
from cortex.state.database import Database
from fakes import FakeClock

pytestmark = pytest.mark.anyio

FIFTY = RateLimit(50, 10.0)


class Bench:
    """The limiter on a file that can be opened again."""

    def __init__(self, path: str) -> None:
        self.clock = FakeClock()
        self._path = path
        self.database = Database.open(path, durability="OFF")

    def reopen(self) -> None:
        self.database.close()
        self.database = Database.open(self._path, durability="OFF")

    async def hit(
        self, principal: str = "uid:1", tool: str = "t", limit: RateLimit = FIFTY
    ) -> int | None:
        """Return None if the call is let through, else the milliseconds to wait."""
        try:
            await RateLimiter(CallLog(self.database, self.clock)).hit(principal, tool, limit)
        except RateLimited as error:
            wait_ms = error.details["retryAfterMs"]
            assert isinstance(wait_ms, int)
            return wait_ms
        return None

    async def hits(self, count: int) -> int:
        """Return how many of so many calls are let through."""
        return [await self.hit() for _ in range(count)].count(None)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    bench = Bench(str(tmp_path / "limits.db"))
    yield bench
    bench.database.close()


async def test_fifty_calls_pass_and_the_next_is_refused(bench: Bench) -> None:
    assert await bench.hits(60) == 50


async def test_the_wait_that_is_named_is_exact_to_the_millisecond(bench: Bench) -> None:
    await bench.hits(50)
    bench.clock.advance(4)
    wait_ms = await bench.hit()
    assert wait_ms == 6001  # the window is closed at both ends
    bench.clock.advance((wait_ms - 1) / 1000)
    assert await bench.hit() == 1
    bench.clock.advance(0.001)
    assert await bench.hit() is None


async def test_a_burst_over_the_edge_of_a_fixed_window_is_refused(bench: Bench) -> None:
    """A counter that begins anew every ten seconds would let a hundred through."""
    bench.clock.advance(9.999)
    assert await bench.hits(50) == 50
    bench.clock.advance(0.002)
    assert await bench.hits(50) == 0
    bench.clock.advance(9.998)
    assert await bench.hits(50) == 0
    bench.clock.advance(0.001)
    assert await bench.hits(60) == 50


async def test_calls_leave_the_window_one_by_one(bench: Bench) -> None:
    for _ in range(50):
        assert await bench.hit() is None
        bench.clock.advance(0.1)
    assert await bench.hit() == 5001
    bench.clock.advance(5.001)
    assert await bench.hits(2) == 1


async def test_a_refused_call_does_not_count(bench: Bench) -> None:
    await bench.hits(50)
    bench.clock.advance(9)
    assert await bench.hits(200) == 0
    bench.clock.advance(1.001)
    assert await bench.hits(50) == 50


async def test_principals_and_tools_are_counted_apart(bench: Bench) -> None:
    await bench.hits(50)
    assert await bench.hit() is not None
    assert await bench.hit(principal="uid:2") is None
    assert await bench.hit(tool="u") is None


async def test_names_are_not_confused_by_how_they_are_joined(bench: Bench) -> None:
    one = RateLimit(1, 10.0)
    assert await bench.hit("a", "b'; DROP TABLE x; --", one) is None
    assert await bench.hit("a", "b", one) is None
    assert await bench.hit("ab", "", one) is None
    assert await bench.hit("ab", "", one) is not None


async def test_a_restart_forgives_nothing(bench: Bench) -> None:
    await bench.hits(49)
    bench.reopen()
    assert await bench.hits(2) == 1
    bench.reopen()
    bench.clock.advance(5)
    assert await bench.hit() == 5001


async def test_a_clock_that_is_set_back_does_not_lock_anybody_out(bench: Bench) -> None:
    await bench.hits(50)
    bench.clock.set_back(3600)
    assert await bench.hits(60) == 50


async def test_the_error_says_what_is_allowed_and_when(bench: Bench) -> None:
    limiter = RateLimiter(CallLog(bench.database, bench.clock))
    await limiter.hit("p", "t", RateLimit(1, 2.5))
    with pytest.raises(RateLimited) as caught:
        await limiter.hit("p", "t", RateLimit(1, 2.5))
    assert caught.value.message == "Too many calls of t: at most 1 in 2.5 s"
    assert caught.value.details == {"tool": "t", "retryAfterMs": 2501}
    assert caught.value.retryable


async def test_a_call_that_cannot_be_counted_is_let_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A full disk must not take reading away; a change is stopped by its audit intent."""

    class Broken:
        async def hit(self, key: str, *, calls: int, window_s: float) -> int | None:
            del key, calls, window_s
            raise Unavailable("the disk is full")

    await RateLimiter(Broken()).hit("uid:1", "t.tool", RateLimit(1, 1))
    assert "t.tool was not counted" in caplog.text
