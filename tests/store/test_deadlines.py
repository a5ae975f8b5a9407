"""A deadline ends the work in the engine: afterwards its own process list is asked."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint
from clickhouse_connect.driver.client import Client

from cortex.errors import DeadlineExceeded, StoreUnavailable
from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import Engine, open_engine

pytestmark = pytest.mark.anyio

ENDLESS = "SELECT count() FROM numbers(1e12) WHERE NOT ignore(sipHash64(number, {mark:String}))"
RUNNING = """
    SELECT count() AS running FROM system.processes
    WHERE query LIKE '%sipHash64(number, %' AND query NOT LIKE '%system.processes%'
"""


async def running(engine: Engine) -> int:
    return (await engine.query(RUNNING))[0]["running"]


async def wait_until(engine: Engine, is_so: Callable[[int], bool]) -> None:
    with anyio.fail_after(10):
        while not is_so(await running(engine)):
            pass


async def test_a_query_over_its_deadline_is_stopped_in_the_engine(engine: Engine) -> None:
    with anyio.fail_after(10), pytest.raises(DeadlineExceeded, match=r"stopped after 0\.2 s"):
        await engine.query(ENDLESS, {"mark": "deadline"}, timeout_s=0.2)
    await wait_until(engine, lambda count: count == 0)


async def test_an_insert_over_its_deadline_is_stopped_in_the_engine(engine: Engine) -> None:
    await engine.command("CREATE TABLE sample (n UInt64) ENGINE = MergeTree ORDER BY n")
    with anyio.fail_after(10), pytest.raises(DeadlineExceeded):
        await engine.command(f"INSERT INTO sample {ENDLESS}", {"mark": "insert"}, timeout_s=0.2)
    await wait_until(engine, lambda count: count == 0)


async def test_the_deadline_of_the_settings_holds_where_none_is_given(
    settings: ClickHouseSettings,
) -> None:
    engine = await open_engine(settings.model_copy(update={"timeout_seconds": 1.0}))
    with anyio.fail_after(10), pytest.raises(DeadlineExceeded, match="stopped after 1 s"):
        await engine.query(ENDLESS, {"mark": "default"})
    await engine.close()


async def test_a_call_may_ask_for_more_time_than_the_settings_give(
    settings: ClickHouseSettings,
) -> None:
    engine = await open_engine(settings.model_copy(update={"timeout_seconds": 1.0}))
    slow = "SELECT sleepEachRow(0.5) AS slept FROM numbers(3) SETTINGS max_block_size = 1"
    assert len(await engine.query(slow, timeout_s=20)) == 3
    await engine.close()


async def test_a_cancelled_caller_leaves_at_once_and_the_query_ends(engine: Engine) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(engine.query, ENDLESS, {"mark": "cancelled"})
        await wait_until(engine, lambda count: count == 2)
        tasks.cancel_scope.cancel()
    await wait_until(engine, lambda count: count == 0)


async def test_an_engine_with_every_handle_taken_still_meets_deadlines(engine: Engine) -> None:
    """More callers than handles: those that wait for one are stopped as well."""
    stopped: list[str] = []

    async def ask() -> None:
        with pytest.raises(DeadlineExceeded):
            await engine.query(ENDLESS, {"mark": "queue"}, timeout_s=0.5)
        stopped.append("in time")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(ask)
    assert len(stopped) == 12
    await wait_until(engine, lambda count: count == 0)


async def test_a_handle_is_free_again_only_when_its_thread_is_done(engine: Engine) -> None:
    started, release = threading.Event(), threading.Event()

    def work(_client: Client, _settings: dict[str, Any]) -> None:
        started.set()
        assert release.wait(10)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine._calls.run, work, None)
            assert await to_thread.run_sync(started.wait, 10)
            tasks.cancel_scope.cancel()
        assert engine._handles._free == []
        release.set()
        while not engine._handles._free:
            await checkpoint()


async def test_closing_ends_what_still_runs(settings: ClickHouseSettings) -> None:
    engine = await open_engine(settings)
    refusals: list[StoreUnavailable] = []

    async def ask() -> None:
        with pytest.raises(StoreUnavailable, match="The store is closed") as refused:
            await engine.query(ENDLESS, {"mark": "closed"})
        refusals.append(refused.value)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await wait_until(engine, lambda count: count == 1)
            await engine.close()
    assert len(refusals) == 1
    reopened = await open_engine(settings)
    assert await running(reopened) == 0
    await reopened.close()
