"""Every change of a memory: one ledger record and the row it makes, in the caller's transaction.

The record holds the whole memory as it is afterwards. Its words are sealed: they stand in a table
of their own, and the record holds their SHA-256. So `forget` takes the words and leaves the chain.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cortex.clock import Clock, IdSource, iso_utc
from cortex.state.ledger import Ledger, Record, canonical_json, digest
from cortex.toolsets.memory.models import LIVING, Actor, Memory, Outcome
from cortex.toolsets.memory.rows import COLUMNS, row_of
from cortex.toolsets.memory.tables import create_tables
from cortex.toolsets.memory.words import terms

LEDGER = Ledger("memory")
FORGOTTEN = "forgotten"
_INSERT = (
    f"INSERT INTO memories ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
    " ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != "id")
    + " RETURNING row"
)


@dataclass(frozen=True, slots=True)
class Changes:
    """Writes changes; each method runs inside the transaction of whoever calls it."""

    clock: Clock

    def create(self, connection: sqlite3.Connection, ids: IdSource, moved: str | None) -> None:
        """Make the tables, and begin the chain if there is none."""
        create_tables(connection)
        LEDGER.create(connection)
        if LEDGER.head(connection)[0] == 0:
            body: dict[str, Any] = {"chain": ids.new(), "moved": moved}
            LEDGER.append(connection, at=self.now(), kind="created", body=body)

    def now(self) -> str:
        """Return this moment as records write it."""
        return iso_utc(self.clock.now())

    def record(
        self,
        connection: sqlite3.Connection,
        kind: str,
        memory: Memory,
        actor: Actor,
        **detail: Any,
    ) -> int:
        """Write a memory as it is from now on, and what happened to it; return its row."""
        sealed = self._seal(connection, memory)
        body: dict[str, Any] = {
            "memory": memory.id,
            "by": asdict(actor),
            "fields": memory.open_fields(),
            "sealed": sealed,
            "detail": detail,
        }
        written = LEDGER.append(connection, at=memory.updated_at, kind=kind, body=body)
        return put_row(connection, memory, sealed, written.seq)

    def record_outcome(
        self, connection: sqlite3.Connection, memory: Memory, outcome: Outcome, actor: Actor
    ) -> int:
        """Write what a session says of a memory, beside the memory that results."""
        put_outcome(connection, memory.id, outcome)
        return self.record(connection, "outcome", memory, actor, outcome=asdict(outcome))

    def forget(self, connection: sqlite3.Connection, memory: Memory, actor: Actor) -> Record:
        """Delete the words everywhere, and leave a record that says so."""
        body = {"memory": memory.id, "by": asdict(actor), "fields": None, "sealed": None}
        written = LEDGER.append(
            connection, at=self.now(), kind=FORGOTTEN, body={**body, "detail": {}}
        )
        drop_row(connection, memory.id)
        connection.execute("DELETE FROM memory_texts WHERE memory_id = ?", (memory.id,))
        connection.execute("DELETE FROM memory_outcomes WHERE memory_id = ?", (memory.id,))
        remember(connection, memory.id, written.seq)
        return written

    def _seal(self, connection: sqlite3.Connection, memory: Memory) -> str:
        """Keep the words under their digest; unchanged words keep the one they have."""
        known = connection.execute(
            "SELECT t.digest, t.content FROM memories m JOIN memory_texts t ON t.digest = m.sealed"
            " WHERE m.id = ?",
            (memory.id,),
        ).fetchone()
        words = memory.sealed_fields()
        if known and unsealed(known[1]) == words:
            return str(known[0])
        # The nonce keeps a short claim from being guessed by its digest once it is forgotten.
        return put_text(connection, memory.id, {**words, "nonce": secrets.token_hex(16)})


def put_text(connection: sqlite3.Connection, memory_id: str, content: Mapping[str, Any]) -> str:
    """Keep sealed words and return their digest."""
    text = canonical_json(content)
    sealed = hashlib.sha256(text).hexdigest()
    connection.execute(
        "INSERT OR IGNORE INTO memory_texts (digest, memory_id, content) VALUES (?, ?, ?)",
        (sealed, memory_id, text.decode()),
    )
    return sealed


def unsealed(content: str) -> dict[str, Any]:
    """Return the words without their nonce."""
    words: dict[str, Any] = json.loads(content)
    words.pop("nonce", None)
    return words


def put_row(connection: sqlite3.Connection, memory: Memory, sealed: str, seq: int) -> int:
    """Make the row of a memory, and its words in the index, what the memory is."""
    (row,) = connection.execute(_INSERT, row_of(memory, sealed, seq)).fetchone()
    connection.execute("DELETE FROM memory_words WHERE rowid = ?", (row,))
    if memory.status in LIVING:
        connection.execute(
            "INSERT INTO memory_words (rowid, terms, marks) VALUES (?, ?, ?)",
            (row, " ".join(indexed_terms(memory)), " ".join(marks(memory))),
        )
    remember(connection, memory.id, seq)
    return int(row)


def drop_row(connection: sqlite3.Connection, memory_id: str) -> None:
    """Take a memory out of every table but the ledger."""
    found = connection.execute("SELECT row FROM memories WHERE id = ?", (memory_id,)).fetchone()
    if found is None:
        return
    for statement in (
        "DELETE FROM memory_words WHERE rowid = ?",
        "DELETE FROM memory_vectors WHERE row = ?",
        "DELETE FROM memories WHERE row = ?",
    ):
        connection.execute(statement, found)


def put_outcome(connection: sqlite3.Connection, memory_id: str, outcome: Outcome) -> None:
    """Keep the last word of a session about a memory."""
    connection.execute(
        "INSERT INTO memory_outcomes (memory_id, session, result, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (memory_id, session)"
        " DO UPDATE SET result = excluded.result, at = excluded.at",
        (memory_id, outcome.session, outcome.result, outcome.at),
    )


def indexed_terms(memory: Memory) -> list[str]:
    """Return what a memory is found by: its claim and its tags."""
    return [*terms(memory.claim), *terms(" ".join(memory.tags))]


def marks(memory: Memory) -> list[str]:
    """Return what a search is narrowed by, as words of the index."""
    return [tag_mark(tag) for tag in memory.tags]


def tag_mark(tag: str) -> str:
    """Return the mark of a tag."""
    return f"tag_{digest(tag)[:16]}"


def remember(connection: sqlite3.Connection, memory_id: str, seq: int) -> None:
    """Note that a record tells of a memory."""
    connection.execute(
        "INSERT OR IGNORE INTO memory_history (memory_id, seq) VALUES (?, ?)", (memory_id, seq)
    )
