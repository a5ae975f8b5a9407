"""Whatever a line or a journal holds, its reader answers; however it is read, it says the same."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.toolsets.conversations.models import Carry, Reading
from cortex.toolsets.conversations.sources.claude_code import ClaudeCodeReader
from cortex.toolsets.conversations.sources.codex import CodexReader
from cortex.toolsets.conversations.sources.copilot_cli import CopilotCliReader
from cortex.toolsets.conversations.sources.gemini_cli import GeminiCliReader
from cortex.toolsets.conversations.sources.kimi_cli import KimiCliReader
from cortex.toolsets.conversations.sources.qwen_code import QwenCodeReader
from cortex.toolsets.conversations.sources.reader import LineReader, SourceFile
from shapes import FIXTURES, broken, check, objects, read_lines, words_of

READERS: dict[str, LineReader] = {
    "claude-code": ClaudeCodeReader(),
    "codex": CodexReader(),
    "qwen-code": QwenCodeReader(),
    "kimi-cli": KimiCliReader(),
    "copilot-cli": CopilotCliReader(),
}


def files_of(folder: str) -> list[Path]:
    return sorted((FIXTURES / folder).rglob("*.jsonl"))


FILES = [
    pytest.param(reader, path, id=f"{folder}-{path.stem[-12:]}")
    for folder, reader in READERS.items()
    for path in files_of(folder)
]
JOURNALS = files_of("gemini-cli")
RECORDS: list[dict[str, Any]] = [
    orjson.loads(raw)
    for folder in (*READERS, "gemini-cli")
    for path in files_of(folder)
    for raw in path.read_bytes().splitlines()
]
WORDS = words_of(RECORDS)
OBJECTS = objects(WORDS)
ANY_RECORDS = st.lists(st.one_of(OBJECTS, broken(RECORDS, WORDS)), min_size=1, max_size=4)


def read_journal(content: bytes) -> list[Reading]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "session-x.jsonl")
        path.write_bytes(content)
        return list(GeminiCliReader().read_all(SourceFile(str(path))))


@given(ANY_RECORDS)
def test_any_objects_are_read_with_slots_of_their_own(records: list[dict[str, Any]]) -> None:
    lines = [orjson.dumps(record) for record in records]
    for reader in READERS.values():
        carry = Carry()
        readings = read_lines(reader, lines, "/s/session/wire.jsonl", carry)
        check(readings)
        assert all(reading.events for reading in readings)
        orjson.dumps(asdict(carry))


@given(ANY_RECORDS)
def test_any_journal_and_document_is_read_with_keys_of_its_own(
    records: list[dict[str, Any]],
) -> None:
    lines = b"\n".join(map(orjson.dumps, records))
    for content in (lines, orjson.dumps({"messages": records}), orjson.dumps(records[0])):
        readings = read_journal(content)
        check(readings)
        assert all(reading.events for reading in readings)
        assert len({reading.key for reading in readings}) == len(readings)
        assert [r.key for r in read_journal(content)] == [r.key for r in readings]


@given(st.binary(max_size=200))
def test_any_bytes_are_no_reason_to_fail(content: bytes) -> None:
    check(read_journal(content))


def test_an_object_nested_too_deep_to_be_written_is_read() -> None:
    deep = b"[" * 600 + b"]" * 600
    raw = b'{"type":"user","id":"x","payload":' + deep + b',"content":' + deep + b"}"
    for reader in READERS.values():
        (reading,) = read_lines(reader, [raw], "/s/session/wire.jsonl", Carry())
        assert reading.events
    assert [reading.key for reading in read_journal(raw)] == ["session", "id:x"]


@pytest.mark.parametrize(("reader", "path"), FILES)
def test_a_file_read_twice_says_the_same(reader: LineReader, path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    once = read_lines(reader, lines, str(path), Carry())
    assert read_lines(reader, lines, str(path), Carry()) == once
    assert len({reading.key for reading in once}) == len(once)


@pytest.mark.parametrize(("reader", "path"), FILES)
def test_a_file_copied_elsewhere_has_the_same_keys(reader: LineReader, path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    folder = "/elsewhere" + str(path.relative_to(FIXTURES).parent)
    copied = read_lines(reader, lines, f"{folder}/{path.name}", Carry())
    once = read_lines(reader, lines, str(path), Carry())
    assert [reading.key for reading in copied] == [reading.key for reading in once]


@pytest.mark.parametrize(("reader", "path"), FILES)
def test_reading_on_from_any_line_says_the_same_as_reading_through(
    reader: LineReader, path: Path
) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    through = read_lines(reader, lines, str(path), Carry())
    for stop in range(len(lines) + 1):
        carry = Carry()
        begun = read_lines(reader, lines[:stop], str(path), carry)
        stored = Carry(**orjson.loads(orjson.dumps(asdict(carry))))
        assert begun + read_lines(reader, lines[stop:], str(path), stored, stop + 1) == through


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem[:12])
def test_a_grown_journal_says_what_it_said_and_more(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    known: dict[str, set[str]] = {}
    for end in range(1, len(lines) + 1):
        readings = read_journal(b"".join(lines[:end]))
        slots = {reading.key: {e.slot for e in reading.events} for reading in readings}
        for key, before in known.items():
            assert before <= slots[key]
        known = slots


@given(st.lists(OBJECTS, max_size=3), st.lists(OBJECTS, min_size=1, max_size=3))
def test_a_grown_document_keeps_its_keys(
    before: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    old = read_journal(orjson.dumps({"sessionId": "s", "messages": before}))
    new = read_journal(orjson.dumps({"sessionId": "s", "messages": before + more}))
    assert [r.key for r in new][: len(old)] == [r.key for r in old]
