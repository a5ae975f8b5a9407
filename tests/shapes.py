"""JSON of any shape, made of the words of a format so that it reaches a reader's own paths."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import orjson
from hypothesis import strategies as st

from cortex.toolsets.conversations.models import Carry, Reading
from cortex.toolsets.conversations.sources.reader import LineReader, SourceFile

FIXTURES = Path(__file__).parent / "unit" / "toolsets" / "conversations" / "fixtures"
Object = dict[str, Any]


def words_of(value: object) -> list[str]:
    """Return the names and short texts of records, sorted."""
    found: set[str] = set()
    _collect(value, found)
    return sorted(found)


def _collect(value: object, found: set[str]) -> None:
    if isinstance(value, dict):
        for name, item in cast("Mapping[str, object]", value).items():
            found.add(name)
            _collect(item, found)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            _collect(item, found)
    elif isinstance(value, str) and len(value) < 24:
        found.add(value)


def values(words: Sequence[str]) -> st.SearchStrategy[Any]:
    """Return JSON values of any shape."""
    names = st.sampled_from(words)
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=12),
        names,
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
        max_leaves=12,
    )


def objects(words: Sequence[str]) -> st.SearchStrategy[Object]:
    """Return JSON objects of any shape."""
    return st.dictionaries(st.sampled_from(words), values(words), max_size=8)


@st.composite
def broken(draw: st.DrawFn, records: Sequence[Object], words: Sequence[str]) -> Object:
    """Return a real record in which one value, at any depth, is something else."""
    record = orjson.loads(orjson.dumps(draw(st.sampled_from(records))))
    here: Any = record
    while True:
        keys: Sequence[Any] = list(here) if isinstance(here, dict) else range(len(here))
        if not keys:
            return record
        key = draw(st.sampled_from(keys))
        if not isinstance(here[key], dict | list) or draw(st.booleans()):
            here[key] = draw(values(words))
            return record
        here = here[key]


def read_lines(
    reader: LineReader, lines: Sequence[bytes], path: str, carry: Carry, first_line: int = 1
) -> list[Reading]:
    """Return what lines say, as ingest reads them."""
    return [
        reader.read(orjson.loads(raw), raw, line_no, SourceFile(path), carry)
        for line_no, raw in enumerate(lines, first_line)
    ]


def check(readings: Sequence[Reading]) -> None:
    """Assert what holds of every reading, whatever was read."""
    for reading in readings:
        slots = [event.slot for event in reading.events]
        assert len(set(slots)) == len(slots)
        assert [event.block for event in reading.events] == list(range(len(slots)))
        assert reading.session_id or not slots
        for event in reading.events:
            for said in (event.text, event.payload_type, event.tool_name, event.op_status):
                assert isinstance(said, str)
        orjson.dumps(asdict(reading))
