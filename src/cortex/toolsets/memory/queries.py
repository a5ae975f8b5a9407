"""Questions to the rows of memory. Every function reads on the connection it is given."""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cortex.state.ledger import Record
from cortex.toolsets.memory.changes import LEDGER, drop_row
from cortex.toolsets.memory.models import LIVING, RECALLED, Memory, Outcome, Status, Trust
from cortex.toolsets.memory.rows import SELECT, memory_of
from cortex.toolsets.memory.words import claim_key

_FROM = f"SELECT {SELECT} FROM memories m"  # noqa: S608
_MAX_NAMES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a list is narrowed to."""

    tags: tuple[str, ...] = ()
    status: Status | None = None
    trust: Trust | None = None
    project: str | None = None
    review_wanted: bool = False


def by_id(connection: sqlite3.Connection, memory_id: str) -> Memory | None:
    """Return one memory."""
    row = connection.execute(f"{_FROM} WHERE m.id = ?", (memory_id,)).fetchone()
    return memory_of(row) if row else None


def by_rows(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Memory]:
    """Return memories by the number of their row."""
    found: dict[int, Memory] = {}
    for some in _chunks(rows):
        statement = f"SELECT {SELECT}, m.row FROM memories m WHERE m.row IN ({_marks(some)})"  # noqa: S608
        for values in connection.execute(statement, some):
            found[int(values[-1])] = memory_of(values[:-1])
    return found


def place(connection: sqlite3.Connection, memory_id: str) -> tuple[int, str]:
    """Return the row of a memory and the digest of its words."""
    row, sealed = connection.execute(
        "SELECT row, sealed FROM memories WHERE id = ?", (memory_id,)
    ).fetchone()
    return int(row), str(sealed)


def same_claim(connection: sqlite3.Connection, claim: str, project: str) -> list[Memory]:
    """Return the memories of one project that say the same in the same words, oldest first."""
    rows = connection.execute(
        f"{_FROM} WHERE m.claim_key = ? AND m.project = ? ORDER BY m.row",
        (claim_key(claim), project),
    )
    return [memory_of(row) for row in rows]


def terms_of(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, list[str]]:
    """Return the indexed terms of rows; those that are not living have none."""
    found: dict[int, list[str]] = {}
    for some in _chunks(rows):
        statement = f"SELECT id, c0 FROM memory_words_content WHERE id IN ({_marks(some)})"  # noqa: S608
        found |= {int(row): str(text).split() for row, text in connection.execute(statement, some)}
    return found


def listed(
    connection: sqlite3.Connection, wanted: Filter, *, limit: int, offset: int
) -> tuple[list[Memory], int]:
    """Return one page, the last changed first, and how many there are in all."""
    where, values = _where(wanted)
    (total,) = connection.execute(f"SELECT count(*) FROM memories m{where}", values).fetchone()  # noqa: S608
    rows = connection.execute(
        f"{_FROM}{where} ORDER BY m.updated_at DESC, m.id LIMIT ? OFFSET ?",
        (*values, limit, offset),
    )
    return [memory_of(row) for row in rows], int(total)


def best_known(
    connection: sqlite3.Connection, projects: tuple[str, ...], limit: int
) -> list[Memory]:
    """Return memories worth knowing without a question: reviewed and useful first."""
    rows = connection.execute(
        f"{_FROM} WHERE m.status = ? AND m.project IN ({_marks(projects)})"
        " ORDER BY m.trust DESC, m.helpful - 4 * m.not_helpful DESC, m.updated_at DESC, m.id"
        " LIMIT ?",
        (RECALLED, *projects, limit),
    )
    return [memory_of(row) for row in rows]


def of_status(
    connection: sqlite3.Connection,
    status: Status,
    *,
    trust: Trust | None = None,
    after_row: int = 0,
    limit: int = 1000,
) -> list[tuple[int, Memory]]:
    """Return memories of a status in the order they came in, from a row on."""
    where, values = ("", ()) if trust is None else (" AND m.trust = ?", (trust,))
    rows = connection.execute(
        f"SELECT {SELECT}, m.row FROM memories m WHERE m.status = ? AND m.row > ?{where}"  # noqa: S608
        " ORDER BY m.row LIMIT ?",
        (status, after_row, *values, limit),
    )
    return [(int(row[-1]), memory_of(row[:-1])) for row in rows]


def with_files(connection: sqlite3.Connection, limit: int) -> list[Memory]:
    """Return the newest recalled memories that cite files."""
    rows = connection.execute(
        f"{_FROM} WHERE m.has_files AND m.status = ? ORDER BY m.row DESC LIMIT ?",
        (RECALLED, limit),
    )
    return [memory_of(row) for row in rows]


def outcomes(connection: sqlite3.Connection, memory_id: str) -> list[Outcome]:
    """Return what sessions said of a memory."""
    rows = connection.execute(
        "SELECT session, result, at FROM memory_outcomes WHERE memory_id = ? ORDER BY at, session",
        (memory_id,),
    )
    return [Outcome(session=row[0], result=row[1], at=row[2]) for row in rows]


def history(connection: sqlite3.Connection, memory_id: str, limit: int) -> list[Record]:
    """Return the newest records about a memory, oldest first."""
    rows = connection.execute(
        "SELECT seq FROM memory_history WHERE memory_id = ? ORDER BY seq DESC LIMIT ?",
        (memory_id, limit),
    ).fetchall()
    return [LEDGER.after(connection, int(seq) - 1, 1)[0] for (seq,) in reversed(rows)]


def counts(connection: sqlite3.Connection) -> list[tuple[str, str, int]]:
    """Return how many memories there are by status and trust."""
    rows = connection.execute("SELECT status, trust, count(*) FROM memories GROUP BY status, trust")
    return [(str(status), str(trust), int(count)) for status, trust, count in rows]


def flagged(connection: sqlite3.Connection, column: str, limit: int) -> tuple[list[str], int]:
    """Return ids of living memories whose list in a column is not empty, and how many there are."""
    if column not in ("contradicts", "near", "secrets", "review_wanted"):
        raise ValueError(f"no list of memories: {column}")
    empty = "" if column == "review_wanted" else "[]"
    where = f" WHERE {column} <> ? AND status IN ({_marks(sorted(LIVING))})"
    values = (empty, *sorted(LIVING))
    (total,) = connection.execute(f"SELECT count(*) FROM memories{where}", values).fetchone()  # noqa: S608
    rows = connection.execute(
        f"SELECT id FROM memories{where} ORDER BY row DESC LIMIT ?",  # noqa: S608
        (*values, limit),
    )
    return [str(row[0]) for row in rows], int(total)


def digest_of_text(content: bytes) -> str:
    """Return the digest sealed words are kept under."""
    return hashlib.sha256(content).hexdigest()


def text_of(connection: sqlite3.Connection, sealed: str) -> str | None:
    """Return sealed words, unless they were forgotten."""
    row = connection.execute(
        "SELECT content FROM memory_texts WHERE digest = ?", (sealed,)
    ).fetchone()
    return str(row[0]) if row else None


def keep_text(connection: sqlite3.Connection, sealed: str, memory_id: str, text: str) -> None:
    """Keep words that were sealed elsewhere."""
    connection.execute(
        "INSERT OR IGNORE INTO memory_texts (digest, memory_id, content) VALUES (?, ?, ?)",
        (sealed, memory_id, text),
    )


def drop_texts(connection: sqlite3.Connection, memory_id: str) -> None:
    """Delete the words of a memory."""
    connection.execute("DELETE FROM memory_texts WHERE memory_id = ?", (memory_id,))


def drop_memory(connection: sqlite3.Connection, memory_id: str) -> None:
    """Take a memory that was forgotten elsewhere out of the rows."""
    drop_row(connection, memory_id)
    drop_texts(connection, memory_id)
    connection.execute("DELETE FROM memory_outcomes WHERE memory_id = ?", (memory_id,))


def has_history(connection: sqlite3.Connection, memory_id: str) -> bool:
    """Tell whether the ledger knows a memory, forgotten ones included."""
    found = connection.execute(
        "SELECT 1 FROM memory_history WHERE memory_id = ? LIMIT 1", (memory_id,)
    ).fetchone()
    return found is not None


def scrub(connection: sqlite3.Connection) -> None:
    """Take what was deleted out of the index's old segments and out of the write-ahead log."""
    connection.execute("INSERT INTO memory_words (memory_words) VALUES ('optimize')")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _where(wanted: Filter) -> tuple[str, list[Any]]:
    words: list[str] = []
    values: list[Any] = []
    for tag in wanted.tags:
        words.append("EXISTS (SELECT 1 FROM json_each(m.tags) t WHERE t.value = ?)")
        values.append(tag)
    for column, value in (
        ("status", wanted.status),
        ("trust", wanted.trust),
        ("project", wanted.project),
    ):
        if value is not None:
            words.append(f"m.{column} = ?")
            values.append(value)
    if wanted.review_wanted:
        words.append(
            "(m.review_wanted <> '' OR m.status IN ('candidate', 'pending', 'quarantined'))"
        )
    return (f" WHERE {' AND '.join(words)}" if words else ""), values


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[i : i + _MAX_NAMES] for i in range(0, len(values), _MAX_NAMES))
