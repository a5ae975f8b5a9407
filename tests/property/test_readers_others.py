"""Whatever Gemini, Qwen, Kimi and Copilot write, their readers answer, and always the same."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.toolsets.conversations.models import Carry, Reading
from cortex.toolsets.conversations.sources.copilot_cli import CopilotCliReader
from cortex.toolsets.conversations.sources.gemini_cli import GeminiCliReader
from cortex.toolsets.conversations.sources.kimi_cli import KimiCliReader
from cortex.toolsets.conversations.sources.qwen_code import QwenCodeReader
from cortex.toolsets.conversations.sources.reader import LineReader, SourceFile

FIXTURES = Path(__file__).parents[1] / "unit" / "toolsets" / "conversations" / "fixtures"
READERS: dict[str, LineReader] = {
    "qwen-code": QwenCodeReader(),
    "kimi-cli": KimiCliReader(),
    "copilot-cli": CopilotCliReader(),
}
FILES = [
    pytest.param(reader, path, id=f"{folder}-{path.stem[:12]}")
    for folder, reader in READERS.items()
    for path in sorted((FIXTURES / folder).rglob("*.jsonl"))
]
JOURNALS = sorted((FIXTURES / "gemini-cli").rglob("*.jsonl"))
RECORDS: list[dict[str, Any]] = [
    orjson.loads(raw)
    for folder in (*READERS, "gemini-cli")
    for path in sorted((FIXTURES / folder).rglob("*.jsonl"))
    for raw in path.read_bytes().splitlines()
]


def words(value: object, found: set[str]) -> set[str]:
    """Return the names and short texts of the formats, so that random shapes reach every path."""
    if isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            found.add(name)
            words(item, found)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            words(item, found)
    elif isinstance(value, str) and len(value) < 24:
        found.add(value)
    return found


WORDS = sorted(words(RECORDS, set()))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from(WORDS),
)
NAMES = st.sampled_from(WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=8)


@st.composite
def broken(draw: st.DrawFn) -> dict[str, Any]:
    """Return a real record in which one value, at any depth, is something else."""
    record = orjson.loads(orjson.dumps(draw(st.sampled_from(RECORDS))))
    here: Any = record
    while True:
        keys: Sequence[Any] = list(here) if isinstance(here, dict) else range(len(here))
        if not keys:
            return record
        key = draw(st.sampled_from(keys))
        if not isinstance(here[key], dict | list) or draw(st.booleans()):
            here[key] = draw(VALUES)
            return record
        here = here[key]


ANY_RECORDS = st.lists(st.one_of(OBJECTS, broken()), min_size=1, max_size=4)


def read(
    reader: LineReader, lines: Sequence[bytes], path: str, carry: Carry, first_line: int = 1
) -> list[Reading]:
    return [
        reader.read(orjson.loads(raw), raw, line_no, SourceFile(path), carry)
        for line_no, raw in enumerate(lines, first_line)
    ]


def read_journal(content: bytes) -> list[Reading]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "session-x.jsonl")
        path.write_bytes(content)
        return list(GeminiCliReader().read_all(SourceFile(str(path))))


def check(readings: list[Reading]) -> None:
    for reading in readings:
        slots = [event.slot for event in reading.events]
        assert slots
        assert len(set(slots)) == len(slots)
        assert [event.block for event in reading.events] == list(range(len(slots)))
        assert reading.session_id
        for event in reading.events:
            for said in (event.text, event.payload_type, event.tool_name, event.op_status):
                assert isinstance(said, str)
            orjson.dumps(asdict(event))


@given(ANY_RECORDS)
def test_any_objects_are_read_with_slots_of_their_own(records: list[dict[str, Any]]) -> None:
    lines = [orjson.dumps(record) for record in records]
    for reader in READERS.values():
        carry = Carry()
        check(read(reader, lines, "/s/session/wire.jsonl", carry))
        orjson.dumps(asdict(carry))


@given(ANY_RECORDS)
def test_any_journal_and_document_is_read_with_keys_of_its_own(
    records: list[dict[str, Any]],
) -> None:
    lines = b"\n".join(map(orjson.dumps, records))
    for content in (lines, orjson.dumps({"messages": records}), orjson.dumps(records[0])):
        readings = read_journal(content)
        check(readings)
        assert len({reading.key for reading in readings}) == len(readings)
        assert [r.key for r in read_journal(content)] == [r.key for r in readings]


@given(st.binary(max_size=200))
def test_any_bytes_are_no_reason_to_fail(content: bytes) -> None:
    check(read_journal(content))


def test_an_object_nested_too_deep_to_be_written_is_read() -> None:
    raw = b'{"type":"user","id":"x","content":' + b"[" * 600 + b"]" * 600 + b"}"
    for reader in READERS.values():
        check(read(reader, [raw], "/s/session/wire.jsonl", Carry()))
    check(read_journal(raw))


@pytest.mark.parametrize(("reader", "path"), FILES)
def test_a_file_read_twice_says_the_same(reader: LineReader, path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    once = read(reader, lines, str(path), Carry())
    assert read(reader, lines, str(path), Carry()) == once
    assert len({reading.key for reading in once}) == len(once)


@pytest.mark.parametrize(("reader", "path"), FILES)
def test_reading_on_from_any_line_says_the_same_as_reading_through(
    reader: LineReader, path: Path
) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    through = read(reader, lines, str(path), Carry())
    for stop in range(len(lines) + 1):
        carry = Carry()
        begun = read(reader, lines[:stop], str(path), carry)
        stored = Carry(**orjson.loads(orjson.dumps(asdict(carry))))
        assert begun + read(reader, lines[stop:], str(path), stored, stop + 1) == through


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
