"""Whatever rows hold, the database readers answer; whatever is torn off them has one error."""

import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.toolsets.conversations.models import Carry, Reading
from cortex.toolsets.conversations.sources.cursor import CursorReader
from cortex.toolsets.conversations.sources.cursor_state import CursorStateReader
from cortex.toolsets.conversations.sources.opencode import OpencodeReader
from cortex.toolsets.conversations.sources.reader import DocumentReader, SourceFile
from cortex.toolsets.conversations.sources.sqlite_file import SourceUnreadable, json_of
from shapes import FIXTURES, check, objects, read_lines

SCRIPTS = {
    "opencode.db": (FIXTURES / "opencode" / "database.sql").read_text(),
    "state.vscdb": (FIXTURES / "cursor" / "state.sql").read_text(),
}
READERS: dict[str, DocumentReader] = {
    "opencode.db": OpencodeReader(),
    "state.vscdb": CursorStateReader(),
}
WORDS = sorted({word for text in SCRIPTS.values() for word in text.split('"')[1::2] if word})
OBJECTS = objects(WORDS)
DATA = (
    OBJECTS.map(lambda value: orjson.dumps(value).decode())
    | st.text(max_size=30)
    | st.binary(max_size=30)
    | st.just("[" * 5000)
    | st.just('{"type":"text","text":"half \\ud83d"}')
    | st.integers(-(2**63), 2**63 - 1)
)
ID = st.sampled_from(["ses_a", "msg_1", "msg_2", "prt_1", "x", "", "c-1"]) | st.binary(max_size=3)
MOMENT = st.integers(-(2**62), 2**62) | st.none() | st.text(max_size=5)


@contextmanager
def database(name: str) -> Generator[tuple[Path, sqlite3.Connection]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        connection = sqlite3.connect(path)
        try:
            yield path, connection
        finally:
            connection.close()


def read(name: str, path: Path) -> list[Reading]:
    return list(READERS[name].read_all(SourceFile(str(path))))


def check_keys(readings: list[Reading]) -> None:
    check(readings)
    keys = [(reading.session_id, reading.key) for reading in readings]
    assert len(set(keys)) == len(keys)


@settings(deadline=None)
@given(st.lists(st.tuples(ID, ID, ID, MOMENT, MOMENT, DATA), max_size=6))
def test_opencode_answers_whatever_its_rows_hold(rows: list[tuple[Any, ...]]) -> None:
    with database("opencode.db") as (path, connection):
        # The columns without their promises: another version may break any of them.
        connection.executescript(
            "CREATE TABLE session (id, parent_id, directory, title, model, time_created,"
            " time_updated); CREATE TABLE message (id, session_id, time_created, time_updated,"
            " data); CREATE TABLE part (id, message_id, session_id, time_created, time_updated,"
            " data); CREATE TABLE session_message (id, session_id, type, seq, time_created,"
            " time_updated, data)"
        )
        seen: set[Any] = set()
        for number, (one, two, kind, made, changed, data) in enumerate(rows):
            part = f"p{number}"
            connection.execute(
                "INSERT INTO part VALUES (?,?,?,?,?,?)", (part, one, two, made, changed, data)
            )
            if one not in seen:
                values = (one, two, made, changed, data)
                connection.execute("INSERT INTO message VALUES (?,?,?,?,?)", values)
                values = (one, two, kind, data, data, made, changed)
                connection.execute("INSERT INTO session VALUES (?,?,?,?,?,?,?)", values)
            seen.add(one)
            values = (f"s{number}", two, kind, number, made, changed, data)
            connection.execute("INSERT INTO session_message VALUES (?,?,?,?,?,?,?)", values)
        connection.commit()
        first = read("opencode.db", path)
        assert first == read("opencode.db", path)
        for reading in first:
            orjson.dumps(asdict(reading))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["composerData:c", "bubbleId:c:b", "x"]), DATA)))
def test_cursor_answers_whatever_its_rows_hold(rows: list[tuple[str, Any]]) -> None:
    with database("state.vscdb") as (path, connection):
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT, value BLOB)")
        for number, (key, value) in enumerate(rows):
            row = (f"{key}{number}", value)
            connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", row)
        connection.commit()
        first = read("state.vscdb", path)
        check_keys(first)
        assert first == read("state.vscdb", path)


@settings(deadline=None)
@given(st.sampled_from(list(SCRIPTS)), st.integers(0, 200_000), st.binary(max_size=64), st.data())
def test_a_torn_database_is_read_or_refused_but_never_changed(
    name: str, place: int, damage: bytes, data: st.DataObject
) -> None:
    with database(name) as (path, connection):
        connection.executescript(SCRIPTS[name])
        connection.close()
        content = bytearray(path.read_bytes())
        place %= len(content)
        content[place : place + len(damage)] = damage
        content = content[: data.draw(st.integers(0, len(content)))]
        path.write_bytes(content)
        with suppress(SourceUnreadable):
            assert read(name, path) == read(name, path)
        assert path.read_bytes() == content
        assert [file.name for file in path.parent.iterdir()] == [name]


@given(st.lists(OBJECTS, max_size=5))
def test_cursor_lines_of_any_shape_are_read_and_twice_equals_once(
    records: list[dict[str, Any]],
) -> None:
    lines = [orjson.dumps(record) for record in records]
    path = "/p/agent-transcripts/s/s.jsonl"
    first, again = (read_lines(CursorReader(), lines, path, Carry()) for _ in range(2))
    assert first == again
    check(first)


@given(st.text() | st.binary())
def test_json_of_anything_is_a_value_that_can_be_written_again(value: str | bytes) -> None:
    orjson.dumps(json_of(value))
