"""The log of searches: one row a search, one a hit, and never in the way of an answer."""

from typing import Any

import anyio
import pytest

from cortex.clock import SystemClock
from cortex.errors import StoreUnavailable
from cortex.settings.models import RedactionSettings
from cortex.store.engine import Engine
from cortex.store.migrate import migrate
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.search_log import SearchLog
from cortex.toolsets.conversations.service import Found, Hit, Search
from harness import PATIENCE_S

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9
WANTED = Search(query="", limit=5, min_score=0.5, min_should_match=2, session_id="s")


def log_on(engine: Engine, *, is_async: bool = True) -> SearchLog:
    redactor = Redactor(RedactionSettings())
    return SearchLog(engine, redactor, SystemClock(), is_async=is_async, max_terms=32)


def found(query: str = "pool timeout", hits: int = 2) -> Found:
    events: list[Any] = [{"event_uid": f"u{n}", "session_id": "s"} for n in range(hits)]
    made = tuple(Hit(event, 2.5, 1.5, 2, 9, "", "") for event in events)
    return Found("q1", query, query.split(), 10, 7.0, 3.25, made)


async def rows(engine: Engine, table: str) -> list[dict[str, Any]]:
    return await engine.query(f"SELECT * FROM {table}")


async def test_a_search_is_one_row_and_each_hit_another(engine: Engine) -> None:
    await migrate(engine)
    log = log_on(engine)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await log.note(found(), WANTED, "codex")
        assert log.counts() == {"waiting": 1, "lost": 0}
        with anyio.fail_after(PATIENCE_S):
            while len(await rows(engine, "search_hit_log")) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    row = (await rows(engine, "search_query_log"))[0]
    assert (row["query_id"], row["source"], row["session_hint"]) == ("q1", "codex", "s")
    assert (row["raw_query"], row["normalized_terms"]) == ("pool timeout", ["pool", "timeout"])
    assert (row["result_limit"], row["min_should_match"], row["min_score"]) == (5, 2, 0.5)
    assert (row["include_tool_events"], row["exclude_codex_mcp"]) == (0, 1)
    assert (row["response_ms"], row["result_count"]) == (3.25, 2)
    hits = sorted(await rows(engine, "search_hit_log"), key=lambda hit: hit["rank"])
    assert [(hit["rank"], hit["event_uid"], hit["score"], hit["bm25"]) for hit in hits] == [
        (1, "u0", 2.5, 1.5),
        (2, "u1", 2.5, 1.5),
    ]


async def test_a_secret_in_a_query_is_not_logged_nor_its_pieces(engine: Engine) -> None:
    await migrate(engine)
    log = log_on(engine, is_async=False)
    await log.note(found(f"where is {SECRET} used"), WANTED, "codex")
    row = (await rows(engine, "search_query_log"))[0]
    assert SECRET.lower() not in str(row).lower()
    assert "[REDACTED:" in row["raw_query"]
    assert "used" in row["normalized_terms"]


async def test_what_waits_is_written_when_the_daemon_stops(engine: Engine) -> None:
    await migrate(engine)
    log = log_on(engine)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await anyio.lowlevel.checkpoint()
        await log.note(found(), WANTED, "codex")
        group.cancel_scope.cancel()
    assert len(await rows(engine, "search_query_log")) == 1


class BrokenEngine(Engine):
    """Refuses every row."""

    def __init__(self) -> None:
        pass

    async def insert(self, table: str, columns: Any, rows: Any, **_: Any) -> None:
        del columns, rows
        raise StoreUnavailable(f"{table} is away")


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_store_that_is_away_fails_no_answer(is_async: bool) -> None:
    log = log_on(BrokenEngine(), is_async=is_async)
    await log.note(found(), WANTED, "codex")
    await log.write()
    assert log.counts() == {"waiting": 0, "lost": 1}


async def test_what_cannot_be_written_in_time_is_let_go_and_counted() -> None:
    log = log_on(BrokenEngine())
    for _ in range(1200):
        await log.note(found(hits=0), WANTED, "codex")
    assert log.counts() == {"waiting": 1000, "lost": 200}
