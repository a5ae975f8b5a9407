"""An append-only ledger in SQLite: each record is hashed together with the hash of the one before.

The hash is SHA-256 over the RFC 8785 canonical JSON of the whole record, so that neither a field
nor the order of records can change unseen. Used by audit, and by memory.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import rfc8785

GENESIS = "0" * 64

Visit = Callable[[int, str, str], None]
"""Is shown number, kind and body of a record that is as it was written."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in the ledger."""

    seq: int
    at: str
    kind: str
    body: Mapping[str, Any]
    prev_hash: str
    hash: str

    def canonical(self) -> bytes:
        """Write the record, without its own hash, in the one form that is hashed."""
        return canonical_json(
            {
                "seq": self.seq,
                "at": self.at,
                "kind": self.kind,
                "body": self.body,
                "prev_hash": self.prev_hash,
            }
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """One record that is not as it was written, and how that shows."""

    seq: int
    problem: str


def canonical_json(value: object) -> bytes:
    """Write JSON as RFC 8785 says: one value, one spelling."""
    return rfc8785.dumps(cast("dict[str, Any]", value))


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _ignore(_seq: int, _kind: str, _body: str) -> None:
    """Visit nothing."""


class Ledger:
    """A named hash chain in a database. Its methods run inside the caller's transaction."""

    def __init__(self, name: str) -> None:
        if not name.isidentifier():
            raise ValueError(f"a ledger's name is an identifier, not {name!r}")
        self._table = f"ledger_{name}"
        self._head = f"ledger_{name}_head"

    def create(self, connection: sqlite3.Connection) -> None:
        """Make the tables, and the triggers that refuse to change what was written."""
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} ("
            " seq INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,"
            " prev_hash TEXT NOT NULL, hash TEXT NOT NULL) STRICT"
        )
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._head} ("
            " one INTEGER PRIMARY KEY CHECK (one = 1),"
            " seq INTEGER NOT NULL, hash TEXT NOT NULL) STRICT"
        )
        connection.execute(
            f"INSERT OR IGNORE INTO {self._head} (one, seq, hash) VALUES (1, 0, ?)", (GENESIS,)
        )
        for verb in ("UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TRIGGER IF NOT EXISTS {self._table}_no_{verb.lower()}"
                f" BEFORE {verb} ON {self._table}"
                " BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
            )
        # INSERT OR REPLACE deletes without asking a DELETE trigger.
        connection.execute(
            f"CREATE TRIGGER IF NOT EXISTS {self._table}_no_replace BEFORE INSERT ON {self._table}"
            f" WHEN EXISTS (SELECT 1 FROM {self._table} WHERE seq = NEW.seq)"
            " BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        )

    def append(
        self, connection: sqlite3.Connection, *, at: str, kind: str, body: Mapping[str, Any]
    ) -> Record:
        """Add one record behind the newest and return it."""
        seq, prev_hash = self.head(connection)
        text = canonical_json(body).decode()
        record_hash = _hash_of(seq + 1, at, kind, text, prev_hash)
        connection.execute(
            f"INSERT INTO {self._table} (seq, at, kind, body, prev_hash, hash)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (seq + 1, at, kind, text, prev_hash, record_hash),
        )
        connection.execute(
            f"UPDATE {self._head} SET seq = ?, hash = ? WHERE one = 1", (seq + 1, record_hash)
        )
        return Record(seq + 1, at, kind, body, prev_hash, record_hash)

    def head(self, connection: sqlite3.Connection) -> tuple[int, str]:
        """Return number and hash of the newest record; 0 and zeros before the first."""
        row = connection.execute(f"SELECT seq, hash FROM {self._head} WHERE one = 1").fetchone()
        return (int(row[0]), str(row[1])) if row else (0, GENESIS)

    def after(self, connection: sqlite3.Connection, seq: int, limit: int) -> list[Record]:
        """Return up to `limit` records that follow record `seq`."""
        rows = connection.execute(
            f"SELECT seq, at, kind, body, prev_hash, hash FROM {self._table}"
            " WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, limit),
        )
        return [_record(row) for row in rows]

    def verify(self, connection: sqlite3.Connection, visit: Visit = _ignore) -> list[Fault]:
        """Check every record and name each that is broken; `visit` sees those that are not."""
        return list(self._faults(connection, visit))

    def _faults(self, connection: sqlite3.Connection, visit: Visit) -> Iterator[Fault]:
        expected_seq, expected_prev = 1, GENESIS
        # As bytes: text that is no longer UTF-8 would else stop the reading, not be named.
        columns = ", ".join(
            f"CAST({name} AS BLOB)" for name in ("at", "kind", "body", "prev_hash", "hash")
        )
        rows = connection.execute(f"SELECT seq, {columns} FROM {self._table} ORDER BY seq")
        for raw in rows:
            seq = int(raw[0])
            # An undecodable byte becomes a character that no record of ours holds.
            row: tuple[Any, ...] = (
                seq,
                *(field.decode("utf-8", "surrogateescape") for field in raw[1:]),
            )
            if seq != expected_seq:
                yield Fault(expected_seq, f"missing: the next record is {seq}")
                # The hash of the lost record is unknown: the link over the gap is not judged.
                expected_prev = str(row[4])
            if row[4] != expected_prev:
                yield Fault(seq, "does not follow the record before it")
            # As append spelt it, a record needs no parsing to be proved: ten times as quick.
            if _hash_of(seq, row[1], row[2], row[3], row[4]) == row[5]:
                visit(seq, row[2], row[3])
            else:
                yield from _broken_seal(row)
            expected_seq, expected_prev = seq + 1, str(row[5])
        head_seq, head_hash = self.head(connection)
        if head_seq >= expected_seq:
            yield Fault(expected_seq, f"missing: the ledger had {head_seq} records")
        elif (head_seq, head_hash) != (expected_seq - 1, expected_prev):
            yield Fault(expected_seq - 1, "is not the newest record the ledger remembers")


def _hash_of(seq: int, at: str, kind: str, body: str, prev_hash: str) -> str:
    """Return the hash of a record whose body is spelt already: that of `Record.canonical`."""
    spelt = (
        f'{{"at":{_quoted(at)},"body":{body},"kind":{_quoted(kind)},'
        f'"prev_hash":{_quoted(prev_hash)},"seq":{seq}}}'
    )
    return hashlib.sha256(spelt.encode("utf-8", "surrogateescape")).hexdigest()


def _quoted(text: str) -> str:
    """Write a string as canonical JSON does."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return json.dumps(text, ensure_ascii=False)


def _record(row: tuple[Any, ...]) -> Record:
    body = json.loads(row[3], parse_int=_number)
    return Record(int(row[0]), row[1], row[2], body, row[4], row[5])


def _number(digits: str) -> float:
    """Read an integer; one beyond 53 bits was written from a float, which has this spelling too."""
    number = int(digits)
    return number if abs(number) < 2**53 else float(digits)


def _broken_seal(row: tuple[Any, ...]) -> Iterator[Fault]:
    """Say what is wrong with a record that is not as it was spelt."""
    seq = int(row[0])
    try:
        record = _record(row)
        sealed = hashlib.sha256(record.canonical()).hexdigest()
    except (ValueError, RecursionError):  # not JSON, or JSON that has no canonical form
        yield Fault(seq, "cannot be read")
        return
    if sealed != record.hash:
        yield Fault(seq, "was changed after it was written")
    else:  # the same record, spelt in another way than `append` spells
        yield Fault(seq, "is not in canonical form")
