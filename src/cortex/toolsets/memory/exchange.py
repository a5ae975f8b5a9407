"""Export and import: JSON Lines that keep ids, history and hashes; verified, then written."""

import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from cortex.errors import InvalidParams
from cortex.state.ledger import GENESIS, Record
from cortex.toolsets.memory import queries
from cortex.toolsets.memory.changes import (
    FORGOTTEN,
    LEDGER,
    put_outcome,
    put_row,
    remember,
    unsealed,
)
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.models import Memory, Outcome

FORMAT = "cortex-memory"
VERSION = 1
_BATCH = 500
_MAX_LINE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """One record of a file, with the words it seals where they are there."""

    record: Record
    text: str | None


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    records: int
    memories: int
    known: int


class Exchange:
    """Writes memories to a file and reads them back."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def export(self, path: str) -> int:
        """Write the whole history to a new file, readable by its owner alone."""
        try:
            return await self._core.database.read_apart(
                lambda connection: _export(connection, path)
            )
        except OSError as error:
            raise InvalidParams(f"cannot write {path}: {error.strerror}") from error

    async def load(self, path: str) -> Imported:
        """Read a file that `export` wrote: all of it is checked before any of it is kept."""
        await anyio.to_thread.run_sync(_check, path)
        now = self._core.now()
        done = await self._core.database.write(lambda connection: _load(connection, path, now))
        self._core.recall.postings.forget()
        return done


def _export(connection: sqlite3.Connection, path: str) -> int:
    seq, head = LEDGER.head(connection)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    written: set[str] = set()
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        chain = LEDGER.after(connection, 0, 1)[0].body.get("chain")
        header = {"format": FORMAT, "version": VERSION, "chain": chain, "records": seq}
        file.write(json.dumps({**header, "head": head}) + "\n")
        done = 0
        while records := LEDGER.after(connection, done, _BATCH):
            for record in records:
                file.write(_line(connection, record, written) + "\n")
            done = records[-1].seq
        file.flush()
        os.fsync(file.fileno())
    return seq


def _line(connection: sqlite3.Connection, record: Record, written: set[str]) -> str:
    told = {name: getattr(record, name) for name in ("seq", "at", "kind", "prev_hash", "hash")}
    line: dict[str, Any] = {"record": {**told, "body": record.body}}
    sealed = record.body.get("sealed")
    if sealed and sealed not in written:
        text = queries.text_of(connection, sealed)
        if text is not None:
            line["text"] = text
            written.add(sealed)
    return json.dumps(line, ensure_ascii=False)


def _check(path: str) -> None:
    for _ in _lines(path):
        pass


def _lines(path: str) -> Iterator[Line]:
    """Read and verify a file line by line; the first thing that is wrong ends it."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            header = _parsed(file.readline(_MAX_LINE_BYTES), 1)
            if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
                raise InvalidParams(f"{path}: line 1 is not the head of a memory export")
            prev, seq, number = GENESIS, 0, 1
            while text := file.readline(_MAX_LINE_BYTES):
                number += 1
                line = _verified(_parsed(text, number), number, seq + 1, prev)
                seq, prev = line.record.seq, line.record.hash
                yield line
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParams(f"{path}: cannot be read: {error}") from error
    if (seq, prev) != (header["records"], header["head"]):
        raise InvalidParams(f"{path}: ends at record {seq} of {header['records']}")


def _parsed(text: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidParams(f"line {number}: is not a JSON object")
    return cast("dict[str, Any]", value)


def _verified(line: dict[str, Any], number: int, seq: int, prev: str) -> Line:
    try:
        record = Record(**line["record"])
        is_sound = _hash(record) == record.hash
        text = line.get("text")
        sealed = record.body.get("sealed")
        has_text = text is None or queries.digest_of_text(text.encode()) == sealed
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidParams(f"line {number}: is not a record") from None
    if (record.seq, record.prev_hash) != (seq, prev):
        raise InvalidParams(f"line {number}: does not follow the record before it")
    if not is_sound:
        raise InvalidParams(f"line {number}: was changed after it was written")
    if not has_text:
        raise InvalidParams(f"line {number}: its words are not those that were sealed")
    return Line(record, text)


def _hash(record: Record) -> str:
    return queries.digest_of_text(record.canonical())


def _load(connection: sqlite3.Connection, path: str, now: str) -> Imported:
    chain = ""
    texts: dict[str, dict[str, Any]] = {}
    known: set[str] = set()
    new: set[str] = set()
    records = 0
    for line in _lines(path):
        body = line.record.body
        chain = chain or str(body.get("chain", ""))
        memory_id = body.get("memory")
        if memory_id is None:
            continue
        if memory_id not in new and queries.has_history(connection, memory_id):
            known.add(memory_id)
            continue
        new.add(memory_id)
        if line.text is not None:
            texts[str(body["sealed"])] = json.loads(line.text)
            queries.keep_text(connection, str(body["sealed"]), memory_id, line.text)
        _append(connection, line.record, chain, texts, now)
        records += 1
    for memory_id in new:
        if queries.by_id(connection, memory_id) is None:
            queries.drop_texts(connection, memory_id)
    return Imported(records, len(new), len(known))


def _append(
    connection: sqlite3.Connection,
    record: Record,
    chain: str,
    texts: dict[str, dict[str, Any]],
    now: str,
) -> None:
    """Write a record of another chain into ours, with what it was there."""
    body = dict(record.body)
    memory_id = str(body["memory"])
    was = {name: getattr(record, name) for name in ("seq", "at", "kind", "hash", "prev_hash")}
    body.setdefault("was", {"chain": chain, **was})
    written = LEDGER.append(connection, at=now, kind="imported", body=body)
    sealed = body["sealed"]
    if body["was"]["kind"] == FORGOTTEN:
        queries.drop_memory(connection, memory_id)
        remember(connection, memory_id, written.seq)
        return
    if sealed not in texts:
        # Words that were forgotten later: the record stays, there is nothing to show.
        remember(connection, memory_id, written.seq)
        return
    words = unsealed(json.dumps(texts[sealed]))
    put_row(connection, Memory.from_fields(body["fields"], words), sealed, written.seq)
    outcome = body["detail"].get("outcome")
    if outcome:
        put_outcome(connection, memory_id, Outcome(**outcome))
