"""Forgetting on both engines: gone from every table, off the disk, and not back again."""

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from cortex.clock import RandomIds, SystemClock
from cortex.errors import InvalidParams, NotFound
from cortex.settings.models import ClickHouseSettings, RedactionSettings
from cortex.state.journal import Journal
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import migrate
from cortex.toolsets.conversations.forget import Forgetter
from cortex.toolsets.conversations.forget_queries import TABLES, ForgetQueries
from cortex.toolsets.conversations.forgotten import Rule, Scope, State
from cortex.toolsets.conversations.ingest.service import IngestService
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.search_log import SearchLog
from cortex.toolsets.conversations.service import Found, Hit, Search
from ingesting import check, claude_line, contents, service_on, settings_for, written

pytestmark = pytest.mark.anyio

BAD = b'{"type": "user", "broken'
# Tables that hold nothing of what was said.
_OTHERS = {"ingest_batches", "ingest_checkpoints", "audit_log", "schema_migrations"}


class Desk:
    """A folder of sessions, the store they are read into, and what forgets."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self.engine = engine
        self.folder = root / "sessions"
        self.changes: list[int] = []
        clock, ids = SystemClock(), RandomIds()
        self.journal, _ = Journal.open(str(root / "audit.db"), "audit", clock, ids)
        self.ingest: IngestService = service_on(engine, settings_for(self.folder))
        self.log = SearchLog(
            engine, Redactor(RedactionSettings()), clock, is_async=True, max_terms=32
        )
        self.forgetter = Forgetter(
            ForgetQueries(engine),
            self.ingest,
            self.journal,
            clock,
            ids,
            write_logs=self.log.write,
            on_change=lambda: self.changes.append(1),
            is_cluster=False,
        )

    def write(self, session: str, said: list[str], *, day: int = 1, cwd: str = "/w/one") -> Path:
        lines = [
            claude_line(session, n, text, cwd=cwd, timestamp=f"2026-03-{day:02d}T10:00:{n:02d}Z")
            for n, text in enumerate(said)
        ]
        path = self.folder / "claude-code" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(written(lines))
        return path

    async def read(self) -> None:
        """Read as a daemon does that was just started and knows no checkpoint by heart."""
        async with self.ingest.alone():
            pass
        await self.ingest.read(None, None)

    async def forget(self, scope: Scope, value: str) -> Rule:
        rule = await self.forgetter.forget(scope, value, "uid:1")
        assert rule is not None
        return rule

    async def sessions(self) -> set[str]:
        rows = await self.engine.query("SELECT DISTINCT session_id FROM events")
        return {str(row["session_id"]) for row in rows}

    async def rows(self, table: str) -> int:
        found = await self.engine.query(f"SELECT count() AS n FROM {table}")
        return int(found[0]["n"])


@pytest.fixture
async def desk(engine: Engine, tmp_path: Path) -> AsyncIterator[Desk]:
    await migrate(engine)
    made = Desk(engine, tmp_path)
    yield made
    made.journal.close()


async def test_nothing_of_a_forgotten_session_is_in_any_table(desk: Desk) -> None:
    kept = desk.write("kept", ["the heron stays", "yes"])
    gone = desk.write("gone", ["the walrus goes", "yes"])
    gone.write_bytes(gone.read_bytes() + BAD + b"\n")
    kept.write_bytes(kept.read_bytes() + BAD + b" too\n")
    await desk.read()
    event = {"event_uid": "u", "session_id": "gone"}
    uid = await desk.engine.query("SELECT event_uid FROM events WHERE session_id = 'gone' LIMIT 1")
    event["event_uid"] = uid[0]["event_uid"]
    hit = Hit(event, 1.0, 1.0, 1, 3, "", "")
    found = Found("q1", "walrus", ["walrus"], 4, 3.0, 1.0, (hit,))
    wanted = Search(query="walrus", limit=5, min_score=0, min_should_match=1, session_id="gone")
    await desk.log.note(found, wanted, "test")
    rule = await desk.forget("session", "gone")
    assert await desk.sessions() == {"kept"}
    assert rule.counts["events"] == 2
    assert rule.counts["search_hit_log"] == rule.counts["search_query_log"] == 1
    assert rule.counts["ingest_errors"] == 1
    for table in TABLES:
        rows = await desk.engine.query(f"SELECT * FROM {table}")
        assert "walrus" not in str(rows), table
        assert "gone" not in str(rows), table
    await check(desk.engine)
    # What is left is what one reading of the other file makes, statistics and errors included.
    gone.unlink()
    left = await contents(desk.engine)
    for table in ("ingest_checkpoints", "forgotten", *TABLES):
        await desk.engine.command(f"TRUNCATE TABLE {table}")
    await desk.read()
    assert await contents(desk.engine) == left


async def test_every_table_that_tells_of_a_session_is_known_to_forgetting(desk: Desk) -> None:
    """A table that is added later must be forgotten from as well, or named here."""
    rows = await desk.engine.query(
        "SELECT DISTINCT table FROM system.columns WHERE database = currentDatabase()"
        " AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND engine LIKE '%MergeTree')"
    )
    tables = {str(row["table"]) for row in rows} - _OTHERS - {"forgotten", "forgotten_sessions"}
    assert tables == set(TABLES)


async def test_forgotten_sessions_do_not_come_back(desk: Desk) -> None:
    path = desk.write("gone", ["the walrus goes", "yes"])
    path.write_bytes(path.read_bytes() + BAD + b"\n")
    desk.write("kept", ["the heron stays"])
    await desk.read()
    await desk.forget("session", "gone")
    # Appended to, copied, read from the start, and asked for by name.
    path.write_bytes(path.read_bytes() + written([claude_line("gone", 9, "walrus again")]))
    shutil.copy(path, path.with_name("copy.jsonl"))
    await desk.read()
    await desk.ingest.read([str(path), str(path.with_name("copy.jsonl"))], "claude-code")
    await desk.engine.command("TRUNCATE TABLE ingest_checkpoints")
    await desk.read()
    assert await desk.sessions() == {"kept"}
    assert await desk.rows("raw_events") == 1
    assert await desk.rows("ingest_errors") == 0
    await check(desk.engine)


async def test_undone_it_is_read_again(desk: Desk) -> None:
    desk.write("back", ["the walrus returns", "yes"])
    await desk.read()
    before = await contents(desk.engine)
    rule = await desk.forget("session", "back")
    assert [r.rule_id for r in await desk.forgetter.rules()] == [rule.rule_id]
    await desk.read()
    assert await desk.sessions() == set()
    await desk.forgetter.undo(rule.rule_id, "uid:1")
    assert await desk.forgetter.rules() == []
    await desk.read()
    assert await contents(desk.engine) == before
    with pytest.raises(NotFound):
        await desk.forgetter.undo(rule.rule_id, "uid:1")


async def test_before_a_day_goes_and_the_day_stays(desk: Desk) -> None:
    desk.write("old", ["walrus of the first"], day=1)
    path = desk.write("both", ["early words", "late words"], day=1)
    lines = path.read_bytes().replace(b"03-01T10:00:01", b"03-05T10:00:01")
    path.write_bytes(lines)
    desk.write("new", ["heron of the ninth"], day=9)
    await desk.read()
    preview = await desk.forgetter.preview("before", "2026-03-05")
    assert (preview.sessions, preview.counts["events"]) == (2, 2)
    await desk.forget("before", "2026-03-05")
    rows = await desk.engine.query("SELECT text_content FROM events ORDER BY event_ts")
    assert [row["text_content"] for row in rows] == ["late words", "heron of the ninth"]
    await desk.engine.command("TRUNCATE TABLE ingest_checkpoints")
    await desk.read()
    assert await desk.rows("events") == 2
    await check(desk.engine)
    with pytest.raises(InvalidParams, match="not a date"):
        await desk.forgetter.preview("before", "yesterday")


async def test_a_project_goes_with_all_below_it_and_its_neighbour_stays(desk: Desk) -> None:
    desk.write("in", ["walrus"], cwd="/w/one")
    desk.write("below", ["walrus"], cwd="/w/one/deep")
    desk.write("beside", ["heron"], cwd="/w/one-more")
    await desk.read()
    await desk.forget("project", "/w/one/")
    assert await desk.sessions() == {"beside"}
    # An old session of the project that nobody had read yet is forgotten too.
    desk.write("unseen", ["walrus"], cwd="/w/one")
    await desk.read()
    assert await desk.sessions() == {"beside"}
    # What happens there from now on is news.
    path = desk.write("later", ["heron"], cwd="/w/one")
    path.write_bytes(path.read_bytes().replace(b"2026-03", b"2226-03"))
    await desk.read()
    assert await desk.sessions() == {"beside", "later"}
    with pytest.raises(InvalidParams, match="absolute"):
        await desk.forgetter.preview("project", "one")


async def test_forgetting_is_written_down_without_what_was_said(desk: Desk) -> None:
    desk.write("gone", ["the walrus goes"])
    await desk.read()
    rule = await desk.forget("session", "gone")
    records = [r for r in await desk.journal.after(0, 100) if r.body.get("tool") == "forget"]
    assert [record.kind for record in records] == ["intent", "outcome"]
    for record in records:
        assert record.body["call_id"] == rule.rule_id
        assert (record.body["principal"], record.body["value"]) == ("uid:1", "gone")
        assert record.body["rows"]["events"] == "1"
        assert "walrus" not in json.dumps(dict(record.body))
    assert await desk.journal.verify() == []
    assert desk.changes == [1]


async def test_nothing_to_forget_leaves_no_rule(desk: Desk) -> None:
    assert await desk.forgetter.forget("session", "nobody", "uid:1") is None
    assert await desk.forgetter.rules() == []


@pytest.mark.timeout(120)
async def test_what_was_said_is_off_the_disk(tmp_path: Path) -> None:
    """Once as it was stored, once as it was before the agent rewrote it."""
    store = tmp_path / "clickhouse"
    settings = ClickHouseSettings(url=f"chdb://{store}")
    engine = await open_engine(settings)
    await migrate(engine)
    # Text that no codec hides, in every table that keeps text.
    for table, column in (
        ("raw_events", "raw_json"),
        ("events", "text_content"),
        ("search_postings", "term"),
    ):
        await engine.command(f"ALTER TABLE {table} MODIFY COLUMN {column} String CODEC(NONE)")
    # How often the engine cleans up is told to it when it starts.
    await engine.close()
    engine = await open_engine(settings)
    desk = Desk(engine, tmp_path)
    desk.write("gone", ["my marker is zqxwalrusmarker"])
    desk.write("kept", ["my marker is zqxheronmarker"])
    await desk.read()
    await engine.command("DELETE FROM raw_events WHERE session_id = 'gone'")
    assert _files_with(store, b"zqxwalrusmarker")
    async with anyio.create_task_group() as group:
        group.start_soon(desk.forgetter.run)
        await desk.forget("session", "gone")
        with anyio.fail_after(100):
            while (await desk.forgetter.rules())[0].state != State.ERASED:  # noqa: ASYNC110
                await anyio.sleep(0.1)
        group.cancel_scope.cancel()
    assert _files_with(store, b"zqxwalrusmarker") == []
    assert _files_with(store, b"zqxheronmarker")
    made: Any = await engine.query(
        "SELECT create_table_query AS q FROM system.tables WHERE name = 'events'"
    )
    assert "old_parts_lifetime" not in made[0]["q"]
    desk.journal.close()
    await engine.close()


def _files_with(folder: Path, marker: bytes) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and marker in p.read_bytes()]
