"""The list of sessions on both engines: what it shows, of whom, and that it is never stale."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cortex.settings.models import RedactionSettings
from cortex.store.engine import Engine
from cortex.store.migrate import migrate
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.session_queries import SessionFilters, SessionQueries
from cortex.toolsets.conversations.sessions import SessionPage, SessionsService
from ingesting import claude_line, service_on, settings_for, written

pytestmark = pytest.mark.anyio

USAGE = {"input_tokens": 100, "output_tokens": 7}


def lines(session: str, day: int, cwd: str, *texts: str) -> list[dict[str, Any]]:
    return [
        claude_line(session, n, text, cwd=cwd, timestamp=f"2026-03-{day:02d}T10:00:{n:02d}Z")
        for n, text in enumerate(texts)
    ]


@pytest.fixture
async def folder(engine: Engine, tmp_path: Path) -> Path:
    await migrate(engine)
    made = tmp_path / "sessions"
    place = made / "claude-code"
    place.mkdir(parents=True)
    one = lines("one", 1, "/w/one", "why does the walrus hang", "because", "and now")
    one[1]["message"]["usage"] = USAGE
    one.append({"type": "ai-title", "sessionId": "one", "aiTitle": "The walrus hangs"})
    (place / "one.jsonl").write_bytes(written(one))
    two = lines("two", 2, "/w/one/deep", "token ghp_" + "a1B2" * 9 + " " + "long " * 60)
    (place / "two.jsonl").write_bytes(written(two))
    three = lines("three", 3, "/w/one-more", "other", "yes")
    (place / "three.jsonl").write_bytes(written(three))
    await service_on(engine, settings_for(made)).read(None, None)
    return made


async def listed(engine: Engine, limit: int = 20, **filters: Any) -> SessionPage:
    service = SessionsService(SessionQueries(engine), Redactor(RedactionSettings()))
    return await service.list(SessionFilters(**filters), limit)


async def names(engine: Engine, **filters: Any) -> list[str]:
    return [s.session_id for s in (await listed(engine, **filters)).sessions]


async def test_sessions_come_newest_first_with_title_turns_and_tokens(
    engine: Engine, folder: Path
) -> None:
    assert folder.exists()
    page = await listed(engine)
    assert [session.session_id for session in page.sessions] == ["three", "two", "one"]
    one = page.sessions[2]
    assert (one.title, one.harness, one.project) == ("The walrus hangs", "claude-code", "/w/one")
    assert one.turns == 2
    assert (one.tokens["input"], one.tokens["output"]) == (100, 7)
    assert one.started_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    two = page.sessions[1]
    assert two.title.startswith("token [REDACTED:")
    assert len(two.title) == 80


async def test_filters_and_limit_narrow_the_list(engine: Engine, folder: Path) -> None:
    assert folder.exists()
    assert await names(engine, project="/w/one") == ["two", "one"]
    assert await names(engine, project="/w/one/") == ["two", "one"]
    assert await names(engine, harness="codex") == []
    assert await names(engine, since=datetime(2026, 3, 2, tzinfo=UTC)) == ["three", "two"]
    assert await names(engine, until=datetime(2026, 3, 2, tzinfo=UTC)) == ["one"]
    page = await listed(engine, limit=1)
    assert ([s.session_id for s in page.sessions], page.total) == (["three"], 3)


async def test_a_session_in_two_files_is_one_and_counts_each_record_once(
    engine: Engine, folder: Path
) -> None:
    place = folder / "claude-code"
    more = lines("one", 9, "/w/one", "a", "b", "c", "d", "e")[4:]
    (place / "again.jsonl").write_bytes((place / "one.jsonl").read_bytes() + written(more))
    before = (await listed(engine)).sessions[2]
    await service_on(engine, settings_for(folder)).read(None, None)
    after = (await listed(engine)).sessions[0]
    assert (after.session_id, after.events) == ("one", before.events + 1)
    assert after.title == "The walrus hangs"
