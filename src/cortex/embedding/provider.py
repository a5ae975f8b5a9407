"""Texts to vectors: what every provider does, and what may be chosen. Imports no provider."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384
Mode = Literal["query", "passage"]
Vectors = NDArray[np.float32]
"""One row of length 1 for each text."""


class Provider(Protocol):
    """Makes vectors of texts. Safe to use from several tasks at once."""

    async def model(self) -> str:
        """Return the name of the model; vectors of two names cannot be compared."""
        ...

    async def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """Return a vector for each text; raises `Unavailable` where that cannot be done now."""
        ...

    async def close(self) -> None:
        """Let go of processes and connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """What an operator may choose; `[embedding]` has the same names."""

    provider: Literal["local", "http", "none"] = "local"
    endpoint: str = "http://127.0.0.1:8121/embed"
    api: Literal["cortex", "openai"] = "cortex"
    model: str = ""
    api_key: str = ""
    model_dir: Path | None = None
    batch_size: int = 16
    max_tokens: int = 128
    timeout_s: float = 30.0
    retries: int = 2
    cache_entries: int = 200_000


def as_rows(values: object, count: int) -> Vectors:
    """Return what a model answered as rows of length 1, or raise `ValueError`."""
    rows = np.asarray(values, dtype=np.float32)
    if rows.shape != (count, DIMENSIONS):
        raise ValueError(f"{rows.shape} where ({count}, {DIMENSIONS}) was expected")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        raise ValueError("a vector without direction")
    return (rows / lengths).astype(np.float32)
