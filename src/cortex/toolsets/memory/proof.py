"""The proof: the chain is unbroken, and the rows are what the ledger says. Names every difference.

The rows can be made again from the ledger; `rebuild` does it.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from cortex.state.ledger import Fault
from cortex.toolsets.memory.changes import (
    FORGOTTEN,
    LEDGER,
    drop_row,
    put_outcome,
    put_row,
    unsealed,
)
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.models import Memory, Outcome
from cortex.toolsets.memory.queries import digest_of_text
from cortex.toolsets.memory.rows import COLUMNS, SELECT, column, row_of

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as it was written: a record or a memory, and how that shows."""

    where: str
    problem: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What a verification found."""

    records: int
    memories: int
    head: str
    differences: tuple[Difference, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


@dataclass(slots=True)
class _Told:
    """What the ledger says, gathered record by record."""

    last: dict[str, int] = field(default_factory=dict[str, int])
    sealed: dict[str, str] = field(default_factory=dict[str, str])
    outcomes: dict[tuple[str, str], tuple[str, str]] = field(
        default_factory=dict[tuple[str, str], tuple[str, str]]
    )
    forgotten: set[str] = field(default_factory=set[str])
    records: int = 0

    def visit(self, seq: int, kind: str, body: str) -> None:
        """Take note of one intact record."""
        self.records += 1
        told = orjson.loads(body)
        memory_id = told.get("memory")
        if memory_id is None:
            return
        kind = told.get("was", {}).get("kind", kind)
        if kind == FORGOTTEN:
            self.forgotten.add(memory_id)
            self.last.pop(memory_id, None)
            self.outcomes = {k: v for k, v in self.outcomes.items() if k[0] != memory_id}
            return
        self.last[memory_id] = seq
        self.sealed[told["sealed"]] = memory_id
        outcome = told["detail"].get("outcome")
        if outcome:
            self.outcomes[memory_id, outcome["session"]] = (outcome["result"], outcome["at"])


class Prover:
    """Verifies and rebuilds."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def verify(self) -> Proof:
        """Check everything on one snapshot, beside whatever else goes on."""
        return await self._core.database.read_apart(verify)

    async def rebuild(self) -> int:
        """Make the rows again from the intact records of the ledger, and return how many."""
        count = await self._core.database.write(rebuild)
        self._core.recall.postings.forget()
        self._core.recall.vectors = None
        return count


def verify(connection: sqlite3.Connection) -> Proof:
    """Return every difference between the chain, the words and the rows."""
    # Bytes that are no text any more are to be named, not to stop the reading.
    connection.text_factory = _text
    told = _Told()
    faults = LEDGER.verify(connection, told.visit)
    broken = {fault.seq for fault in faults}
    differences = [_of(fault) for fault in faults]
    differences += _wrong_texts(connection, told)
    differences += _wrong_rows(connection, told, is_whole=not broken)
    differences += _wrong_outcomes(connection, told)
    return Proof(
        told.records + len(broken),
        len(told.last),
        LEDGER.head(connection)[1],
        tuple(differences),
    )


def rebuild(connection: sqlite3.Connection) -> int:
    """Make every row, word and outcome anew."""
    told = _Told()
    LEDGER.verify(connection, told.visit)
    for (memory_id,) in connection.execute("SELECT id FROM memories").fetchall():
        if memory_id not in told.last:
            drop_row(connection, str(memory_id))
    connection.execute("DELETE FROM memory_outcomes")
    for (memory_id, session), (result, at) in told.outcomes.items():
        kept = "helpful" if result == "helpful" else "not-helpful"
        put_outcome(connection, memory_id, Outcome(session=session, result=kept, at=at))
    count = 0
    for memory_id, seq in told.last.items():
        known = _memory_at(connection, seq)
        if known is not None:
            memory, sealed = known
            put_row(connection, memory, sealed, seq)
            count += memory.id == memory_id
    return count


def _of(fault: Fault) -> Difference:
    return Difference(f"record {fault.seq}", fault.problem)


def _wrong_texts(connection: sqlite3.Connection, told: _Told) -> Iterator[Difference]:
    rows = connection.execute(
        "SELECT digest, memory_id, CAST(content AS BLOB) FROM memory_texts ORDER BY digest"
    )
    seen: set[str] = set()
    for digest, memory_id, content in rows:
        seen.add(digest)
        if digest_of_text(content) != digest:
            yield Difference(memory_id, "its words are not those that were sealed")
        elif told.sealed.get(digest) != memory_id:
            yield Difference(memory_id, f"the words {digest[:12]} are not said to be its own")
        elif memory_id in told.forgotten and memory_id not in told.last:
            yield Difference(memory_id, "was forgotten, and its words are still here")
    for digest, memory_id in told.sealed.items():
        if digest not in seen and memory_id in told.last:
            yield Difference(memory_id, "its words are gone and nobody forgot them")


def _wrong_rows(
    connection: sqlite3.Connection, told: _Told, *, is_whole: bool
) -> Iterator[Difference]:
    seen: set[str] = set()
    rows = connection.execute(f"SELECT {SELECT} FROM memories m ORDER BY m.row")  # noqa: S608
    while batch := rows.fetchmany(_BATCH):
        for row in batch:
            memory_id = str(column(row, "id"))
            seen.add(memory_id)
            seq = told.last.get(memory_id)
            if seq is None:
                if is_whole:
                    yield Difference(memory_id, "the ledger knows no such memory")
                continue
            known = _memory_at(connection, seq)
            if known is None:
                continue  # its words are broken, which was said
            memory, sealed = known
            wanted = row_of(memory, sealed, seq)
            if row != wanted:
                names = ", ".join(_unlike(row, wanted))
                yield Difference(memory_id, f"differs from record {seq}: {names}")
    for memory_id, seq in told.last.items():
        if memory_id not in seen:
            yield Difference(memory_id, f"has no row, and record {seq} says it should")


def _unlike(row: Sequence[Any], wanted: Sequence[Any]) -> list[str]:
    return [
        name
        for name, found, expected in zip(COLUMNS, row, wanted, strict=True)
        if found != expected
    ]


def _wrong_outcomes(connection: sqlite3.Connection, told: _Told) -> Iterator[Difference]:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    rows = connection.execute("SELECT memory_id, session, result, at FROM memory_outcomes")
    for memory_id, session, result, at in rows:
        found[memory_id, session] = (result, at)
    for key in sorted(found.keys() | told.outcomes.keys()):
        if found.get(key) != told.outcomes.get(key):
            yield Difference(key[0], f"what session {key[1]} said of it is not what was written")


def _memory_at(connection: sqlite3.Connection, seq: int) -> tuple[Memory, str] | None:
    """Return a memory as a record and its sealed words say, or None if they cannot be read."""
    records = LEDGER.after(connection, seq - 1, 1)
    body: Mapping[str, Any] = records[0].body
    text = connection.execute(
        "SELECT CAST(content AS BLOB) FROM memory_texts WHERE digest = ?", (body["sealed"],)
    ).fetchone()
    if text is None or digest_of_text(text[0]) != body["sealed"]:
        return None
    return Memory.from_fields(body["fields"], unsealed(_text(text[0]))), str(body["sealed"])


def _text(raw: bytes) -> str:
    """Read what may have been tampered with: a byte that is no text is shown as such."""
    return raw.decode("utf-8", "replace")
