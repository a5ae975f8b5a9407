"""Documents and databases are read again and again; the last reading of a record holds."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cortex.errors import StoreUnavailable
from cortex.store.engine import Engine
from cortex.store.migrate import migrate
from ingesting import check, contents, make_dying, service_on, settings_for

ENGINES = ["embedded", pytest.param("server", marks=pytest.mark.slow)]
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("settings", ENGINES, indirect=True)]

FIXTURES = Path(__file__).parent.parent / "unit" / "toolsets" / "conversations" / "fixtures"


@pytest.fixture
async def store(engine: Engine) -> Engine:
    await migrate(engine)
    return engine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("gemini-cli", "opencode", "cursor"):
        (tmp_path / "sessions" / name).mkdir(parents=True)
    return tmp_path / "sessions"


def said(number: int, text: str, kind: str = "user") -> dict[str, Any]:
    at = f"2026-02-03T10:00:{number:02}.000Z"
    return {"id": f"m{number}", "timestamp": at, "type": kind, "content": text}


def document(folder: Path, messages: list[dict[str, Any]]) -> Path:
    path = folder / "gemini-cli" / "session-a.json"
    head = {"sessionId": "a", "startTime": "2026-02-03T10:00:00.000Z"}
    path.write_text(json.dumps(head | {"messages": messages}))
    return path


async def read(engine: Engine, folder: Path, **more: Any) -> int:
    """Read everything as a process does that has just begun."""
    progress = await service_on(engine, settings_for(folder, **more)).read(None, None)
    await check(engine)
    return progress.events


async def texts(engine: Engine) -> list[str]:
    rows = await engine.query(
        "SELECT text_content AS text FROM events WHERE event_kind = 'message' ORDER BY doc_id"
    )
    return [row["text"] for row in rows]


async def frequency(engine: Engine, term: str) -> int:
    rows = await engine.query(
        "SELECT count() AS n FROM search_postings WHERE term = {term:String}", {"term": term}
    )
    return int(rows[0]["n"])


async def test_a_record_that_grew_replaces_what_it_said_before(store: Engine, folder: Path) -> None:
    document(folder, [said(1, "violin"), said(2, "copper", "gemini"), said(3, "harbour")])
    await read(store, folder)
    document(folder, [said(1, "violin"), said(2, "lantern", "gemini"), said(3, "harbour")])
    await read(store, folder)
    assert await texts(store) == ["violin", "lantern", "harbour"], "and keeps its place"
    assert (await frequency(store, "copper"), await frequency(store, "lantern")) == (0, 1)
    turns = await store.query("SELECT turn_seq AS n FROM events WHERE is_turn ORDER BY doc_id")
    assert [row["n"] for row in turns] == [1, 2]


async def test_a_changed_prompt_is_the_same_turn(store: Engine, folder: Path) -> None:
    document(folder, [said(1, "violin"), said(2, "harbour")])
    await read(store, folder)
    document(folder, [said(1, "viola"), said(2, "harbour"), said(3, "meadow")])
    await read(store, folder)
    turns = await store.query("SELECT turn_seq AS n FROM events WHERE is_turn ORDER BY doc_id")
    assert [row["n"] for row in turns] == [1, 2, 3]


async def test_a_record_with_more_events_than_before_loses_none(
    store: Engine, folder: Path
) -> None:
    first = [said(1, "violin"), said(2, "copper", "gemini"), said(3, "harbour")]
    document(folder, first)
    await read(store, folder)
    thoughts = [{"subject": "thunder", "description": "glacier"}]
    document(folder, [first[0], first[1] | {"thoughts": thoughts}, first[2]])
    await read(store, folder)
    assert sorted(await texts(store)) == ["copper", "harbour", "violin"]
    assert await frequency(store, "thunder") == 1


async def test_a_document_that_did_not_change_is_not_parsed(store: Engine, folder: Path) -> None:
    path = document(folder, [said(1, "violin")])
    await read(store, folder)
    before = await contents(store)
    path.chmod(0)  # whoever opens it fails, but for root, who finds the same
    assert await read(store, folder) == 0
    assert await contents(store) == before


async def test_a_half_written_document_waits_and_is_no_session(store: Engine, folder: Path) -> None:
    path = document(folder, [said(1, "violin")])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    service = service_on(store, settings_for(folder))
    assert (await service.read(None, None)).events == 0
    path.write_bytes(whole)
    assert (await service.read(None, None)).events == 2
    assert await store.query("SELECT * FROM ingest_errors") == []


async def test_a_damaged_document_is_one_error_however_often_it_is_met(
    store: Engine, folder: Path
) -> None:
    (folder / "gemini-cli" / "session-a.json").write_text('{"sessionId": "a", ')
    (folder / "opencode" / "opencode.db").write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
    service = service_on(store, settings_for(folder))
    for _ in range(4):
        await service.read(None, None)
    await read(store, folder)
    await read(store, folder)
    errors = await store.query("SELECT error_kind AS kind, source_file AS file FROM ingest_errors")
    assert sorted((row["kind"], Path(row["file"]).name) for row in errors) == [
        ("source_unreadable", "opencode.db"),
        ("source_unreadable", "session-a.json"),
    ]
    assert service.coverage().errors == 2


async def test_a_secret_that_its_name_gives_away_is_in_no_text(store: Engine, folder: Path) -> None:
    password = "corr3ct-h0rse-battery"
    call = {"id": "c", "name": "login", "args": {"password": password}, "status": "success"}
    document(folder, [said(1, "x", "gemini") | {"toolCalls": [call]}])
    await read(store, folder)
    assert password not in str(await contents(store))


def opencode(folder: Path) -> Path:
    path = folder / "opencode" / "opencode.db"
    database = sqlite3.connect(path)
    database.executescript((FIXTURES / "opencode" / "database.sql").read_text())
    database.close()
    return path


async def test_a_database_is_read_on_from_where_it_stood(store: Engine, folder: Path) -> None:
    path = opencode(folder)
    first = await read(store, folder)
    assert first > 5
    before = await contents(store)
    database = sqlite3.connect(path)
    newest = database.execute("SELECT id, data FROM part ORDER BY time_updated DESC").fetchone()
    data = json.loads(newest[1]) | {"type": "text", "text": "saffron orchard"}
    database.execute(
        "UPDATE part SET data = ?, time_updated = time_updated + 5000 WHERE id = ?",
        (json.dumps(data), newest[0]),
    )
    database.commit()
    database.close()
    await read(store, folder)
    after = await contents(store)
    assert await frequency(store, "saffron") == 1
    assert len(after["raw_events"]) == len(before["raw_events"])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_replacement_cut_off_at_any_statement_is_made_good(
    store: Engine, folder: Path, step: int
) -> None:
    call = {"id": "c", "name": "grep", "args": {"pattern": "x"}, "status": "success"}
    old = [said(1, "violin"), said(2, "copper", "gemini"), said(3, "harbour")]
    new = [old[0], said(2, "lantern", "gemini") | {"toolCalls": [call]}, said(3, "meadow")]
    document(folder, new)
    await read(store, folder)
    wanted = _said(await contents(store))

    def die() -> None:
        raise StoreUnavailable("killed")

    writes, is_done = 0, False
    while not is_done:
        writes += step
        document(folder, old)
        await read(store, folder)
        document(folder, new)
        make_dying(store, writes, die)
        try:
            await service_on(store, settings_for(folder)).read(None, None)
            is_done = True
        except StoreUnavailable:
            pass
        store.__class__ = Engine
        await read(store, folder)
        assert _said(await contents(store)) == wanted, f"cut off after write {writes}"
    assert writes > 10


def _said(tables: dict[str, list[Any]]) -> dict[str, Any]:
    """Return what must be the same whatever numbers the events were given."""
    return {
        "uids": sorted(row[1] for row in tables["events"]),
        "texts": sorted(row[-2] for row in tables["events"]),
        "terms": sorted(row[0] for row in tables["search_postings"]),
        "links": tables["event_links"],
        "tools": tables["tool_io"],
        "statistics": [tables["search_term_stats"], tables["search_corpus_stats"]],
    }


async def test_the_database_of_cursor_is_read_whole_and_then_what_is_new(
    store: Engine, folder: Path
) -> None:
    path = folder / "cursor" / "state.vscdb"
    connection = sqlite3.connect(path)
    connection.executescript((FIXTURES / "cursor" / "state.sql").read_text())
    found = await read(store, folder)
    assert found > 3
    kinds = await store.query("SELECT DISTINCT event_kind AS kind FROM events")
    assert {row["kind"] for row in kinds} >= {"message", "tool_call"}
    assert await read(store, folder) == 0
    key, value = connection.execute(
        "SELECT key, value FROM cursorDiskKV WHERE key LIKE 'bubbleId:%' LIMIT 1"
    ).fetchone()
    bubble = json.loads(value) | {"bubbleId": "new", "type": 1, "text": "and the harbour?"}
    row = (f"{key.rpartition(':')[0]}:new", json.dumps(bubble))
    connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", row)
    connection.commit()
    connection.close()
    assert await read(store, folder) >= 1
    assert "and the harbour?" in await texts(store)
