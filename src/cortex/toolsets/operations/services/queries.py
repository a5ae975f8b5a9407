"""What must outlive the daemon about its services, in SQLite: one row for each that was touched."""

import sqlite3
from dataclasses import dataclass
from typing import cast

from cortex.state.database import Database
from cortex.toolsets.operations.services.models import Goal, State
from cortex.toolsets.operations.services.processes import Identity

_SCHEMA = """
CREATE TABLE IF NOT EXISTS services (
    name TEXT PRIMARY KEY,
    goal TEXT NOT NULL CHECK (goal IN ('run', 'stop', 'restart')),
    state TEXT NOT NULL,
    detail TEXT NOT NULL,
    digest TEXT NOT NULL,
    token TEXT,
    pid INTEGER,
    started TEXT,
    boot TEXT
) STRICT
"""
_SAVE = """
INSERT INTO services (name, goal, state, detail, digest, token, pid, started, boot)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
    goal = excluded.goal, state = excluded.state, detail = excluded.detail,
    digest = excluded.digest, token = excluded.token, pid = excluded.pid,
    started = excluded.started, boot = excluded.boot
"""
_ALL = "SELECT name, goal, state, detail, digest, token, pid, started, boot FROM services"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is kept of one service: what it shall do, and the process that does it."""

    name: str
    goal: Goal
    state: State
    detail: str
    digest: str  # of the declaration its process was started with
    token: str | None = None  # in the environment of the process and of all it starts
    process: Identity | None = None


class Records:
    """The rows of all services. A clean stop removes them: the next daemon begins anew."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.write_now(lambda connection: connection.execute(_SCHEMA))

    async def all(self) -> dict[str, Record]:
        """Return what an earlier daemon left, by name."""
        rows = await self._database.read(lambda connection: connection.execute(_ALL).fetchall())
        return {row[0]: _record(row) for row in rows}

    async def save(self, record: Record) -> None:
        """Write one row, new or in place of the old."""
        process = record.process
        values = (
            record.name,
            record.goal,
            record.state,
            record.detail,
            record.digest,
            record.token,
            process.pid if process else None,
            process.started if process else None,
            process.boot if process else None,
        )
        await self._database.write(lambda connection: connection.execute(_SAVE, values))

    async def remove(self, name: str) -> None:
        """Forget a service that has no process any more."""
        statement = "DELETE FROM services WHERE name = ?"
        await self._database.write(lambda connection: connection.execute(statement, (name,)))


def _record(row: sqlite3.Row | tuple[object, ...]) -> Record:
    name, goal, state, detail, digest, token, pid, started, boot = row
    process = Identity(cast("int", pid), str(started), str(boot)) if pid is not None else None
    return Record(
        name=str(name),
        goal=cast("Goal", goal),
        state=cast("State", state),
        detail=str(detail),
        digest=str(digest),
        token=str(token) if token is not None else None,
        process=process,
    )
