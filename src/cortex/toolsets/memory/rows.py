"""Between a memory and its row: every column, in one order, both ways."""

import json
from collections.abc import Sequence
from typing import Any

from cortex.toolsets.memory.models import Evidence, Memory
from cortex.toolsets.memory.words import claim_key

_LISTS = frozenset({"tags", "contradicts", "near", "secrets"})
_PLAIN = (
    "id claim reason confidence status trust project author principal client session created_at"
    " updated_at review_at reviewed_at review_wanted times_noted helpful not_helpful"
    " last_helpful_at supersedes superseded_by"
).split()
COLUMNS: tuple[str, ...] = (
    *_PLAIN,
    *sorted(_LISTS),
    "evidence",
    "claim_key",
    "has_files",
    "sealed",
    "seq",
)
SELECT = ", ".join(f"m.{name}" for name in COLUMNS)
_DERIVED = frozenset({"claim_key", "has_files", "sealed", "seq"})
_PLACE = {name: place for place, name in enumerate(COLUMNS)}


def row_of(memory: Memory, sealed: str, seq: int) -> tuple[Any, ...]:
    """Return the columns of a memory."""
    evidence = [item.to_json() for item in memory.evidence]
    return (
        *(getattr(memory, name) for name in _PLAIN),
        *(_json(list(getattr(memory, name))) for name in sorted(_LISTS)),
        _json(evidence),
        claim_key(memory.claim),
        int(memory.has_files),
        sealed,
        seq,
    )


def memory_of(row: Sequence[Any]) -> Memory:
    """Return the memory of a row selected by `SELECT`."""
    values: dict[str, Any] = {}
    for name, value in zip(COLUMNS, row, strict=False):
        if name in _DERIVED:
            continue
        if name in _LISTS:
            values[name] = tuple(json.loads(value))
        elif name == "evidence":
            values[name] = tuple(Evidence(**item) for item in json.loads(value))
        else:
            values[name] = value
    return Memory(**values)


def column(row: Sequence[Any], name: str) -> Any:
    """Return one column of a row selected by `SELECT`."""
    return row[_PLACE[name]]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
