"""Whatever a line holds, a reader answers; however a file is read, it says the same."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.toolsets.conversations.models import Carry, Reading
from cortex.toolsets.conversations.sources.claude_code import ClaudeCodeReader
from cortex.toolsets.conversations.sources.codex import CodexReader
from cortex.toolsets.conversations.sources.reader import LineReader, SourceFile

FIXTURES = Path(__file__).parents[1] / "unit" / "toolsets" / "conversations" / "fixtures"
READERS: list[tuple[LineReader, str]] = [
    (ClaudeCodeReader(), "claude-code"),
    (CodexReader(), "codex"),
]
FILES = [
    (reader, path)
    for reader, folder in READERS
    for path in sorted((FIXTURES / folder).rglob("*.jsonl"))
]
RECORDS: list[dict[str, Any]] = [
    orjson.loads(raw) for _, path in FILES for raw in path.read_bytes().splitlines()
]
# Words of the formats, so that random shapes reach the readers' own paths.
WORDS = sorted(
    {name for record in RECORDS for name in record}
    | {name for record in RECORDS for name in record.get("payload", {})}
    | {name for record in RECORDS for name in record.get("message", {})}
    | {str(record["type"]) for record in RECORDS if "type" in record}
    | {str(record["payload"].get("type")) for record in RECORDS if "payload" in record}
)
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


def read(
    reader: LineReader, lines: Sequence[bytes], path: str, carry: Carry, first_line: int = 1
) -> list[Reading]:
    return [
        reader.read(orjson.loads(raw), raw, line_no, SourceFile(path), carry)
        for line_no, raw in enumerate(lines, first_line)
    ]


@given(st.lists(st.one_of(OBJECTS, broken()), min_size=1, max_size=4))
def test_any_objects_are_read_with_slots_of_their_own(records: list[dict[str, Any]]) -> None:
    lines = [orjson.dumps(record) for record in records]
    for reader, _ in READERS:
        carry = Carry()
        for reading in read(reader, lines, "/s/session.jsonl", carry):
            slots = [event.slot for event in reading.events]
            assert slots
            assert len(set(slots)) == len(slots)
            assert [event.block for event in reading.events] == list(range(len(slots)))
            assert reading.session_id
            assert all(isinstance(event.text, str) for event in reading.events)
            assert all(isinstance(event.payload_type, str) for event in reading.events)
        orjson.dumps(asdict(carry))


def test_an_object_nested_too_deep_to_be_written_is_read() -> None:
    raw = b'{"type":"user","payload":' + b"[" * 600 + b"]" * 600 + b"}"
    for reader, _ in READERS:
        (reading,) = read(reader, [raw], "/s/session.jsonl", Carry())
        assert reading.events


@pytest.mark.parametrize(("reader", "path"), FILES, ids=lambda value: str(value)[-24:])
def test_a_file_read_twice_or_copied_says_the_same(reader: LineReader, path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    once = read(reader, lines, str(path), Carry())
    assert read(reader, lines, str(path), Carry()) == once
    copied = read(reader, lines, f"/elsewhere/{path.name}", Carry())
    assert [reading.key for reading in copied] == [reading.key for reading in once]
    assert len({reading.key for reading in once}) == len(once)


@pytest.mark.parametrize(("reader", "path"), FILES, ids=lambda value: str(value)[-24:])
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
