"""Ingest of files that grow, move, are cut and replaced: every record once, whatever happens."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cortex.clock import RandomIds, SystemClock
from cortex.errors import StoreUnavailable
from cortex.settings.models import Bm25Settings
from cortex.store.engine import Engine
from cortex.store.migrate import migrate
from cortex.toolsets.conversations.queries import ConversationQueries
from cortex.toolsets.conversations.service import ConversationsService
from ingesting import (
    check,
    claude_line,
    contents,
    make_dying,
    service_on,
    settings_for,
    written,
)

ENGINES = ["embedded", pytest.param("server", marks=pytest.mark.slow)]
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("settings", ENGINES, indirect=True)]

BAD = b'{"type": "user", '


@pytest.fixture
async def store(engine: Engine) -> Engine:
    await migrate(engine)
    return engine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sessions"
    (made / "claude-code" / "loom").mkdir(parents=True)
    return made


def session(folder: Path, name: str, records: list[Any]) -> Path:
    path = folder / "claude-code" / "loom" / f"{name}.jsonl"
    path.write_bytes(written(records))
    return path


def lines(name: str, count: int, start: int = 0) -> list[Any]:
    return [claude_line(name, number) for number in range(start, start + count)]


async def read(engine: Engine, folder: Path, **more: Any) -> int:
    """Read everything as a process does that has just begun."""
    progress = await service_on(engine, settings_for(folder, **more)).read(None, None)
    await check(engine)
    return progress.events


async def count(engine: Engine, table: str) -> int:
    return int((await engine.query(f"SELECT count() AS n FROM {table}"))[0]["n"])


async def test_reading_everything_twice_changes_nothing(store: Engine, folder: Path) -> None:
    session(folder, "a", [*lines("a", 30), BAD])
    assert await read(store, folder) == 30
    before = await contents(store)
    assert await read(store, folder) == 0
    assert await contents(store) == before


async def test_lost_checkpoints_lose_and_double_nothing(store: Engine, folder: Path) -> None:
    session(folder, "a", [*lines("a", 30), BAD, *lines("a", 5, 30)])
    await read(store, folder, batch_size=8)
    before = await contents(store)
    await store.command("TRUNCATE TABLE ingest_checkpoints")
    assert await read(store, folder, batch_size=8) == 0
    assert await contents(store) == before


async def test_a_record_that_nobody_knows_is_kept_as_it_was_written(
    store: Engine, folder: Path
) -> None:
    """The events have its texts; all of it is the record's, which `open` shows when asked."""
    steam = claude_line("a", 1, type="steam-reading", level=3, note="a kind nobody knows yet")
    session(folder, "a", [claude_line("a", 0, "hello"), steam])
    await read(store, folder)
    told = "SELECT event_uid, event_kind, text_content FROM events ORDER BY doc_id DESC LIMIT 1"
    (event,) = await store.query(told)
    assert event["event_kind"] == "unknown"
    assert "a kind nobody knows yet" in event["text_content"]
    service = ConversationsService(
        ConversationQueries(store), Bm25Settings(), SystemClock(), RandomIds(), preview_chars=320
    )
    window = await service.open(event["event_uid"], 1, 1, with_records=True)
    records = [json.loads(shown["payload_json"]) for shown in window.events]
    assert records == [claude_line("a", 0, "hello"), steam]


async def test_a_copied_file_adds_nothing(store: Engine, folder: Path) -> None:
    """More records than a batch takes: a copy is known as one in every batch of it."""
    path = session(folder, "a", [*lines("a", 30), BAD])
    service = service_on(store, settings_for(folder, batch_size=8))
    await service.read(None, None)
    before = await contents(store)
    shutil.copy(path, path.with_name("b.jsonl"))
    assert (await service.read(None, None)).events == 0
    assert await contents(store) == before


async def test_what_a_copy_adds_is_read(store: Engine, folder: Path) -> None:
    path = session(folder, "a", lines("a", 20))
    await read(store, folder, batch_size=8)
    copy = path.with_name("b.jsonl")
    copy.write_bytes(path.read_bytes() + written(lines("a", 3, 20)))
    assert await read(store, folder, batch_size=8) == 3


async def test_a_last_line_without_newline_waits_for_it(store: Engine, folder: Path) -> None:
    path = session(folder, "a", lines("a", 2))
    whole = written(lines("a", 1, 2))
    for cut in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(written(lines("a", 2)) + whole[:cut])
        await read(store, folder)
        assert await count(store, "events") == 2
    path.write_bytes(written(lines("a", 2)) + whole)
    assert await read(store, folder) == 1
    assert await count(store, "ingest_errors") == 0


async def test_who_asks_gets_the_last_line_of_a_still_file_and_it_is_read_once(
    store: Engine, folder: Path
) -> None:
    """One whole record without its newline, which comes later with another record."""
    path = session(folder, "a", lines("a", 2))
    path.write_bytes(written(lines("a", 3)).removesuffix(b"\n"))
    assert await read(store, folder) == 2, "somebody may still be writing it"
    os.utime(path, (0, 0))
    assert await read(store, folder) == 1
    path.write_bytes(written(lines("a", 4)))
    assert await read(store, folder) == 1
    numbers = await store.query("SELECT source_line_no AS n FROM events ORDER BY n")
    assert [row["n"] for row in numbers] == [1, 2, 3, 4]
    assert await count(store, "ingest_errors") == 0


async def test_a_second_start_parses_nothing_that_did_not_change(
    store: Engine, folder: Path
) -> None:
    session(folder, "a", lines("a", 3))
    path = session(folder, "b", [*lines("b", 2), BAD])
    for parsed in (2, 0):
        progress = await service_on(store, settings_for(folder)).read(None, None)
        assert (progress.files, progress.files_parsed) == (2, parsed)
    with path.open("ab") as file:
        file.write(written(lines("b", 1, 2)))
    progress = await service_on(store, settings_for(folder)).read(None, None)
    assert (progress.files_parsed, progress.events) == (1, 1)


async def test_a_renamed_file_goes_on_where_it_was(store: Engine, folder: Path) -> None:
    path = session(folder, "a", lines("a", 10))
    await read(store, folder)
    moved = path.rename(path.with_name("b.jsonl"))
    with moved.open("ab") as file:
        file.write(written(lines("a", 5, 10)))
    assert await read(store, folder) == 5
    streams = "SELECT uniqExact(bitShiftRight(doc_id, 20)) AS n FROM events"
    assert (await store.query(streams))[0]["n"] == 1, "the window around an event would be cut"


@pytest.mark.parametrize("is_same_process", [True, False])
async def test_a_file_that_was_cut_is_read_from_its_beginning(
    store: Engine, folder: Path, is_same_process: bool
) -> None:
    path = session(folder, "a", lines("a", 20))
    service = service_on(store, settings_for(folder, batch_size=8))
    await service.read(None, None)
    path.write_bytes(written([*lines("a", 5), claude_line("a", 99)]))
    if is_same_process:
        assert (await service.read(None, None)).events == 1
        await check(store)
    else:
        assert await read(store, folder, batch_size=8) == 1


async def test_a_longer_file_in_the_place_of_another_is_read_whole(
    store: Engine, folder: Path
) -> None:
    """Same first line, and longer than what was read: only what stands before the end tells."""
    path = session(folder, "a", lines("a", 6))
    await read(store, folder)
    other = [claude_line("a", 0), *(claude_line("b", n) for n in range(20))]
    path.write_bytes(written(other))
    assert await read(store, folder) == 20


async def test_what_a_deleted_file_said_stays(store: Engine, folder: Path) -> None:
    path = session(folder, "a", lines("a", 6))
    await read(store, folder)
    path.unlink()
    assert await read(store, folder) == 0
    assert await count(store, "events") == 6


async def test_each_bad_line_is_one_error_and_the_rest_is_read(store: Engine, folder: Path) -> None:
    records: list[Any] = [
        claude_line("a", 0),
        BAD,
        b"\xff\xfe not text",
        b"[1, 2]",
        b"x" * (8 * 1024 * 1024 + 1),
        b"",
        claude_line("a", 1, timestamp="yesterday"),
        b'{"type": "user", "uuid": "half", "message": {"content": "\\ud83d"}, "n": NaN}',
        claude_line("a", 2, message={"role": "user", "content": "x", "usage": {"n": 1 << 80}}),
    ]
    session(folder, "a", records)
    assert await read(store, folder) == 4
    errors = await store.query(
        "SELECT source_line_no AS line, error_kind AS kind FROM ingest_errors ORDER BY line"
    )
    assert [(row["line"], row["kind"]) for row in errors] == [
        (2, "json_parse_error"),
        (3, "json_parse_error"),
        (4, "json_parse_error"),
        (5, "line_too_large"),
        (7, "timestamp_parse_error"),
    ]


async def test_sessions_of_excluded_folders_are_not_read(store: Engine, folder: Path) -> None:
    secret = [claude_line("s", n, cwd="/home/ada/secret/deep") for n in range(3)]
    session(folder, "s", [{"type": "summary", "summary": "before the folder is told"}, *secret])
    session(folder, "a", lines("a", 3))
    assert await read(store, folder, exclude_project_dirs=("/home/ada/secret/**",)) == 3
    assert await count(store, "raw_events") == 3


async def test_secrets_are_in_no_table_and_counted_once(store: Engine, folder: Path) -> None:
    """A token at the start of a line stands behind a letter in JSON: that of the escape."""
    token = "AKIA" + "IOSFODNN7EXAMPLE"
    password = "corr3ct-h0rse-battery"
    blocks = [{"type": "tool_use", "id": "t", "name": "login", "input": {"password": password}}]
    records = [
        claude_line("a", 0, f"look:\n{token}"),
        claude_line("a", 1, message={"role": "assistant", "content": blocks}),
    ]
    session(folder, "a", records)
    await read(store, folder)
    tables = await contents(store)
    assert token.lower() not in str(tables).lower()
    assert password not in str(tables)
    service = service_on(store, settings_for(folder))
    await service.read(None, None)
    assert service.coverage().redactions == {"aws-access-key": 1, "password": 1}


def die() -> None:
    raise StoreUnavailable("killed")


async def is_read(engine: Engine, folder: Path, writes: int) -> bool:
    """Read as a process that ends after so many writes; tells whether it came to its end."""
    make_dying(engine, writes, die)
    try:
        await service_on(engine, settings_for(folder, batch_size=6)).read(None, None)
    except StoreUnavailable:
        return False
    finally:
        engine.__class__ = Engine
    return True


@pytest.mark.timeout(180)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_write_cut_off_at_any_statement_is_made_good(
    store: Engine, folder: Path, step: int
) -> None:
    """What a kill leaves at each of its moments, and another one while that is cleared away."""
    tool = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}]
    call = claude_line("a", 5, message={"role": "assistant", "content": tool})
    session(folder, "a", [*lines("a", 5), BAD, call, *lines("a", 3, 6)])
    session(folder, "b", lines("b", 2))
    await read(store, folder)
    wanted = await contents(store)
    writes = 0
    while True:
        writes += step
        await forget_everything(store)
        if await is_read(store, folder, writes):
            break
        await is_read(store, folder, writes % 8 + 1)
        assert await is_read(store, folder, 0)
        await check(store)
        assert await contents(store) == wanted, f"cut off after write {writes}"
    assert writes > 12, "two batches of seven statements each"


async def forget_everything(engine: Engine) -> None:
    for table in (
        "events raw_events event_links tool_io search_documents search_postings ingest_errors"
        " ingest_checkpoints ingest_streams ingest_batches"
    ).split():
        await engine.command(f"TRUNCATE TABLE {table}")
