"""One SQLite file with one owner: a single connection on a single thread, explicit transactions."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from cortex.clock import Clock
from cortex.errors import Unavailable

T = TypeVar("T")

Durability = Literal["FULL", "OFF"]
"""FULL: a commit survives a power cut. OFF: it survives our death, all that a limiter needs."""


@dataclass(frozen=True, slots=True)
class MovedAside:
    """A database that could not be read, kept under another name."""

    path: str
    sha256: str
    reason: str


class Database:
    """A SQLite file whose every statement runs on the one thread that owns the connection."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._limiter = CapacityLimiter(1)

    @classmethod
    def open(cls, path: str, *, durability: Durability = "FULL") -> Self:
        """Open or create the file, 0600, in WAL mode; damage raises `sqlite3.DatabaseError`."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.close(handle)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {durability}")
            connection.execute("PRAGMA busy_timeout = 5000")
            connection.execute("PRAGMA foreign_keys = ON")
            problems = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
            if problems != ["ok"]:
                raise sqlite3.DatabaseError(problems[0])
        except sqlite3.Error:
            connection.close()
            raise
        return cls(path, connection)

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run `change` inside one IMMEDIATE transaction: all of it, or nothing."""
        return await self._run(lambda: self._in_transaction(change))

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run `question` on the owner's thread, outside any transaction of ours."""
        return await self._run(lambda: question(self._connection))

    async def read_apart(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run a long `question` on a connection of its own, on one snapshot of the file.

        Calls of others go on meanwhile; what they write is not seen.
        """
        return await anyio.to_thread.run_sync(lambda: self._guarded(lambda: self._apart(question)))

    def _apart(self, question: Callable[[sqlite3.Connection], T]) -> T:
        with contextlib.closing(
            sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        ) as connection:
            connection.execute("PRAGMA busy_timeout = 5000")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            return question(connection)

    def write_now(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Do what `write` does on the calling thread: for start-up, with nothing beside it."""
        return self._guarded(lambda: self._in_transaction(change))

    def _in_transaction(self, change: Callable[[sqlite3.Connection], T]) -> T:
        with transaction(self._connection):
            return change(self._connection)

    async def _run(self, work: Callable[[], T]) -> T:
        # Not abandoned on cancel: a transaction that began is finished.
        return await anyio.to_thread.run_sync(lambda: self._guarded(work), limiter=self._limiter)

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.DatabaseError as error:  # the disk, a lock, or damage done while we run
            raise Unavailable(
                f"{self.path} cannot be used: {error}",
                hint="see whether its disk is full or read-only",
            ) from error

    def close(self) -> None:
        """Fold the WAL back into the file and close it."""
        self._connection.close()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Commit what happens inside, or roll all of it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk makes SQLite roll back by itself; a refused commit leaves it to us.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def open_or_move_aside(
    path: str, clock: Clock, *, durability: Durability = "FULL"
) -> tuple[Database, MovedAside | None]:
    """Open the file; if it is damaged keep it under another name, say so, and begin a new one."""
    try:
        return Database.open(path, durability=durability), None
    # OperationalError is a DatabaseError too, but tells of the disk or a lock, not of damage.
    except (OSError, sqlite3.OperationalError) as error:
        raise Unavailable(
            f"cannot open {path}: {error}",
            hint="see whether its disk is full or read-only",
        ) from error
    except sqlite3.DatabaseError as error:
        moved = _move_aside(path, clock, str(error))
    return Database.open(path, durability=durability), moved


def _move_aside(path: str, clock: Clock, reason: str) -> MovedAside:
    stem = target = f"{path}.corrupt-{clock.now():%Y%m%dT%H%M%SZ}"
    number = 1
    while Path(target).exists():  # twice in one second: the first is evidence too
        number += 1
        target = f"{stem}-{number}"
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(path + suffix).replace(target + suffix)
    Path(path).replace(target)
    return MovedAside(path=target, sha256=digest, reason=reason)
