"""Vectors of claims: kept in SQLite, searched in memory, made by whatever embeds texts here."""

import sqlite3
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from cortex.toolsets.memory.models import LIVING

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
_FIRST_ROOM = 1024
_PRIOR_COSINE, _PRIOR_COUNT = 0.4, 20
_COARSE, _EXACT, _ROUGH = 128, 20_000, 2000


class Embedder(Protocol):
    """Turns texts into vectors of length one."""

    async def model(self) -> str:
        """Return the name of the model; vectors of two names cannot be compared."""
        ...

    async def embed(self, texts: Sequence[str], mode: Literal["query", "passage"]) -> Floats:
        """Return a vector for each text."""
        ...


class VectorIndex:
    """All vectors of one model, in memory; rows are numbers of memories."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._matrix: Floats = np.zeros((0, 0), np.float32)
        self._coarse: Floats = np.zeros((0, 0), np.float32)
        self._rotation: Floats = np.zeros((0, 0), np.float32)
        self._sum: Floats = np.zeros(0, np.float32)
        self._rows: Rows = np.zeros(0, np.int64)
        self._place: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._place)

    def put(self, row: int, vector: Floats) -> None:
        """Keep the vector of a row."""
        place = self._place.setdefault(row, len(self._place))
        if place >= len(self._rows):
            self._make_room(len(vector))
        self._sum += vector - self._matrix[place]
        self._matrix[place] = vector
        self._coarse[place] = vector @ self._rotation
        self._rows[place] = row

    def drop(self, row: int) -> None:
        """Let the vector of a row no longer be found."""
        place = self._place.get(row)
        if place is not None:
            self._sum -= self._matrix[place]
            self._matrix[place] = self._coarse[place] = 0.0

    def _make_room(self, dimensions: int) -> None:
        held = len(self._rows)
        room = max(_FIRST_ROOM, 2 * held)
        matrix = np.zeros((room, dimensions), np.float32)
        coarse = np.zeros((room, min(_COARSE, dimensions)), np.float32)
        rows = np.full(room, -1, np.int64)
        if held:
            matrix[:held], coarse[:held], rows[:held] = self._matrix, self._coarse, self._rows
        else:
            # Some directions at right angles, by chance but always the same.
            spread = np.random.default_rng(7).standard_normal((dimensions, coarse.shape[1]))
            self._rotation = np.linalg.qr(spread)[0].astype(np.float32)
            self._sum = np.zeros(dimensions, np.float32)
        self._matrix, self._coarse, self._rows = matrix, coarse, rows

    def against(self, vector: Floats) -> "Likeness":
        """Compare what is kept with a vector."""
        return Likeness(self, vector)

    def usual(self, vector: Floats) -> float:
        """Return the cosine any row has with a vector.

        Models put any two texts at some cosine; only what is above the usual says something. A few
        memories do not tell what is usual, so that they are counted among some others.
        """
        total = _PRIOR_COSINE * _PRIOR_COUNT + float(self._sum @ vector)
        return total / (_PRIOR_COUNT + len(self._place))

    def nearest(self, vector: Floats, limit: int) -> list[int]:
        """Return the rows that mean most nearly the same, best first."""
        count = len(self._place)
        places = np.arange(count)
        if count > _EXACT:
            # 100,000 vectors take 7 ms whole and 1.5 ms in a third of their dimensions.
            rough = self._coarse[:count] @ (vector @ self._rotation)
            places = np.argpartition(-rough, _ROUGH)[:_ROUGH]
        cosines = self._matrix[places] @ vector
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [int(self._rows[places[i]]) for i in best if cosines[i] > 0]

    def cosine(self, vector: Floats, row: int) -> float | None:
        """Return the cosine of a row, or None if it has no vector."""
        place = self._place.get(row)
        return float(self._matrix[place] @ vector) if place is not None else None


class Likeness:
    """How like the rows of an index are to one text."""

    def __init__(self, index: VectorIndex, vector: Floats) -> None:
        self._index = index
        self._vector = vector
        self._usual = index.usual(vector) if len(index) else 0.0

    def nearest(self, limit: int) -> list[int]:
        """Return the rows that mean most nearly the same, best first."""
        return self._index.nearest(self._vector, limit) if len(self._index) else []

    def cosine(self, row: int) -> float | None:
        """Return the cosine of a row, or None if it has no vector."""
        return self._index.cosine(self._vector, row)

    def meaning(self, row: int) -> float | None:
        """Return how much nearer a row is than the usual one, 0 to 1."""
        cosine = self.cosine(row)
        if cosine is None:
            return None
        return min(1.0, max(0.0, (cosine - self._usual) / max(1.0 - self._usual, 1e-6)))


def load(connection: sqlite3.Connection, model: str) -> VectorIndex:
    """Read every vector of a model."""
    index = VectorIndex(model)
    rows = connection.execute("SELECT row, vector FROM memory_vectors WHERE model = ?", (model,))
    for row, blob in rows:
        index.put(int(row), np.frombuffer(blob, np.float16).astype(np.float32))
    return index


def store(
    connection: sqlite3.Connection, model: str, made: Sequence[tuple[int, str, Floats]]
) -> None:
    """Keep vectors: the row, the digest of the words they were made from, the vector."""
    connection.executemany(
        "INSERT OR REPLACE INTO memory_vectors (row, model, sealed, vector) VALUES (?, ?, ?, ?)",
        [(row, model, sealed, vector.astype(np.float16).tobytes()) for row, sealed, vector in made],
    )


def missing(connection: sqlite3.Connection, model: str, limit: int) -> list[tuple[int, str, str]]:
    """Return row, digest and claim of memories whose words this model has not seen."""
    statuses = sorted(LIVING)
    rows = connection.execute(
        "SELECT m.row, m.sealed, m.claim FROM memories m LEFT JOIN memory_vectors v"
        " ON v.row = m.row AND v.model = ? AND v.sealed = m.sealed"
        " WHERE v.row IS NULL AND m.status IN (?, ?, ?, ?) ORDER BY m.row LIMIT ?",
        (model, *statuses, limit),
    )
    return [(int(row), str(sealed), str(claim)) for row, sealed, claim in rows]
