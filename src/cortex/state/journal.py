"""A ledger with a file of its own: opened, appended to, read behind, verified."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from cortex.clock import Clock, IdSource, iso_utc
from cortex.errors import CortexError
from cortex.state.database import Database, MovedAside, open_or_move_aside
from cortex.state.ledger import Fault, Ledger, Record


class Journal:
    """The audit ledger: one chain in one file, each append one durable transaction."""

    def __init__(self, database: Database, ledger: Ledger, clock: Clock, chain: str) -> None:
        self._database = database
        self._ledger = ledger
        self._clock = clock
        self.chain = chain

    @classmethod
    def open(
        cls, path: str, name: str, clock: Clock, ids: IdSource
    ) -> "tuple[Journal, MovedAside | None]":
        """Open the file; a damaged one is moved aside, and the new chain begins by saying so."""
        database, moved = open_or_move_aside(path, clock)
        ledger = Ledger(name)

        def begin(connection: sqlite3.Connection) -> str:
            ledger.create(connection)
            if ledger.head(connection)[0] > 0:
                return _chain(connection, ledger)
            body: dict[str, Any] = {"chain": ids.new()}
            if moved:
                body |= {"moved": moved.path, "sha256": moved.sha256, "reason": moved.reason}
            kind = "restarted" if moved else "created"
            ledger.append(connection, at=iso_utc(clock.now()), kind=kind, body=body)
            return str(body["chain"])

        try:
            return cls(database, ledger, clock, database.write_now(begin)), moved
        except CortexError:
            database.close()
            raise

    async def append(self, kind: str, body: Mapping[str, Any]) -> None:
        """Write one record; when this returns it is on the disk."""
        at = iso_utc(self._clock.now())
        await self._database.write(
            lambda connection: self._ledger.append(connection, at=at, kind=kind, body=body)
        )

    async def after(self, seq: int, limit: int) -> list[Record]:
        """Return up to `limit` records that follow record `seq`."""
        return await self._database.read(
            lambda connection: self._ledger.after(connection, seq, limit)
        )

    async def length(self) -> int:
        """Return how many records the chain has."""
        return (await self._database.read(self._ledger.head))[0]

    async def verify(self) -> list[Fault]:
        """Check the whole chain and name every broken record."""
        return await self._database.read(self._ledger.verify)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _chain(connection: sqlite3.Connection, ledger: Ledger) -> str:
    """Return the name in the first record; a chain that was tampered with is opened all the same.

    `verify` says what is wrong with it.
    """
    try:
        return str(ledger.after(connection, 0, 1)[0].body["chain"])
    except (LookupError, TypeError, ValueError, RecursionError, sqlite3.OperationalError):
        return "unknown"
