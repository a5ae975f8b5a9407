"""Vectors by the hash of their text, for all projects: the same text is never embedded twice.

It may be lost at any time: what is not in it is made again.
"""

import hashlib
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from cortex.embedding.provider import DIMENSIONS, Vectors
from cortex.errors import Unavailable

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    number INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    vector BLOB NOT NULL
)
"""
_HALF = "<f2"  # half the size; what is lost is 1/50 of what tells two texts apart


def key_of(model: str, text: str) -> bytes:
    """Return the key of a passage of a model."""
    return hashlib.sha256(f"{model}\n{text}".encode("utf-8", "surrogatepass")).digest()


class VectorCache:
    """A file of vectors with an upper bound; the oldest go first. Opened on first use."""

    def __init__(self, path: Path, max_entries: int) -> None:
        self._path = path
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Return what is known of these."""
        with self._lock, closing(self._connection().cursor()) as cursor:
            found: dict[bytes, Vectors] = {}
            for key in keys:
                row = cursor.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
                if row is not None and len(row[0]) == DIMENSIONS * 2:
                    found[key] = np.frombuffer(row[0], dtype=_HALF).astype(np.float32)
            return found

    def put(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Keep vectors, and let the oldest go where there are too many."""
        rows = [(key, vector.astype(_HALF).tobytes()) for key, vector in vectors.items()]
        with self._lock, self._connection() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO vectors (key, vector) VALUES (?, ?)", rows
            )
            connection.execute(
                "DELETE FROM vectors WHERE number <= (SELECT max(number) FROM vectors) - ?",
                (self._max_entries,),
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connected()
        except sqlite3.DatabaseError:
            # It holds nothing that cannot be made again.
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        try:
            return self._connected()
        except sqlite3.Error as error:
            raise Unavailable(f"{self._path} cannot be used: {error}") from error

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=10.0, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            with connection:
                connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection
