"""Databases that belong to a running agent: read as they are now, their folder left as it was.

Knows no agent. Nothing here may write to, lock for long, or create a file beside the database.
"""

import contextlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import orjson

T = TypeVar("T")
_BUSY_TIMEOUT_S = 2.0
_MAX_TRIES = 5


class SourceUnreadable(Exception):
    """A session file that cannot be read as what it should be; `reason` is one line."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = " ".join(reason.split())[:300]
        super().__init__(f"{path}: {self.reason}")


class _Moved(Exception):
    """The file changed under a look that had no lock on it."""


class Look:
    """One short, consistent look into a database. What a version lacks reads as nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._columns: dict[str, frozenset[str]] = {}

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns, none where there is no such table."""
        if table not in self._columns:
            rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            self._columns[table] = frozenset(str(name) for (name,) in rows)
        return self._columns[table]

    def select(
        self, table: str, columns: Sequence[str], rest: str = "", *values: object
    ) -> list[tuple[Any, ...]]:
        """Return the rows; a missing column is null, a missing table has no rows.

        `rest` is written by the caller and may name only columns it made sure of.
        """
        there = self.columns(table)
        if not there:
            return []
        wanted = ", ".join(name if name in there | {"rowid"} else "NULL" for name in columns)
        # The names are constants of the readers; every value is bound.
        query = f"SELECT {wanted} FROM {table} {rest}"  # noqa: S608
        return self._connection.execute(query, values).fetchall()


class ForeignDatabase:
    """A database of another program. Open between looks is nothing, not even a file handle.

    So the owner may checkpoint, close and clean up at any moment while records are handled here.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._copies = contextlib.ExitStack()
        self._copy: tuple[object, Path] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._copies.close()

    def read(self, work: Callable[[Look], T]) -> T:
        """Run `work` on one consistent state; it may be run again, so it only collects rows."""
        for _ in range(_MAX_TRIES):
            with contextlib.suppress(_Moved):
                return self._read_once(work)
        raise SourceUnreadable(str(self._path), "changes faster than it can be read")

    def _read_once(self, work: Callable[[Look], T]) -> T:
        before = self._stamp()
        connection: sqlite3.Connection | None = None
        try:
            connection, is_locked = self._connect()
            connection.execute("BEGIN")
            found = work(Look(connection))
        except (sqlite3.Error, OSError) as error:
            if self._stamp() != before:
                raise _Moved from error
            raise SourceUnreadable(str(self._path), str(error) or type(error).__name__) from error
        finally:
            if connection is not None:
                connection.close()
        if not is_locked and self._stamp() != before:
            raise _Moved
        return found

    def _connect(self) -> tuple[sqlite3.Connection, bool]:
        """Open the way that fits how the file lies there; say whether locks guard the look.

        `mode=ro` alone makes a missing -shm and -wal and writes read marks into a present -shm.
        With `readonly_shm` SQLite only maps and locks it: the owner's commits in the -wal are
        seen, and after a crash it reads the -wal into memory instead of recovering it on disk.
        """
        if self._path.stat().st_size == 0:
            # SQLite would delete a -wal or -journal beside an empty file.
            return sqlite3.connect(":memory:", isolation_level=None), False
        is_open = self._beside("-shm").exists() and self._beside("-wal").exists()
        if is_open or not self._is_wal():
            return _opened(self._path, "mode=ro&readonly_shm=1"), True
        # In WAL mode and without a -shm nobody has it open. A -wal may still hold commits.
        if _size(self._beside("-wal")) == 0:
            return _opened(self._path, "immutable=1"), False
        return _opened(self._private_copy(), "mode=rw"), False

    def _is_wal(self) -> bool:
        # Closing this handle drops every lock this process has on the file: one reader at a time.
        with self._path.open("rb") as file:
            return file.read(20)[18:] == b"\x02\x02"

    def _private_copy(self) -> Path:
        """Copy database and -wal, once for each state of them; rare, so the cost is accepted."""
        stamp = self._stamp()
        if self._copy is None or self._copy[0] != stamp:
            self._copies.close()
            folder = self._copies.enter_context(tempfile.TemporaryDirectory(prefix="cortex-"))
            target = Path(folder) / "copy.db"
            shutil.copyfile(self._path, target)
            shutil.copyfile(self._beside("-wal"), f"{target}-wal")
            self._copy = stamp, target
        return self._copy[1]

    def _beside(self, ending: str) -> Path:
        return self._path.with_name(self._path.name + ending)

    def _stamp(self) -> tuple[object, ...]:
        files = (self._path, self._beside("-wal"))
        return tuple((_size(file), _changed_ns(file)) for file in files)


def _opened(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{options}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.text_factory = _decoded
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA schema_version").fetchone()  # the first real read
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def json_of(value: object) -> object:
    """Return what a JSON text says, None for anything else; half a surrogate pair becomes `?`."""
    if not isinstance(value, str | bytes):
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        pass
    try:
        # Scripts cut texts inside a pair and write the half as an escape, which orjson refuses.
        loose = json.dumps(json.loads(value), ensure_ascii=False)
        return orjson.loads(loose.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def word_of(value: object) -> str:
    """Return what a column says as text, whatever type another version gave it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
