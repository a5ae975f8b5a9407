"""Vectors for tests: a model that needs no model, and the loop around it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from cortex.toolsets.code.indexing.vectors import attach, pending
from cortex.toolsets.code.models import Vector


class LetterModel:
    """Makes a vector of length 1 from the letters of a text, and remembers what it was asked."""

    def __init__(self, model: str = "test-model", dimensions: int = 384) -> None:
        self.model = model
        self.dimensions = dimensions
        self.asked: list[str] = []

    def embed(self, passage: str) -> Vector:
        """Return the vector of one text."""
        self.asked.append(passage)
        values = np.zeros(self.dimensions, "<f4")
        for number, letter in enumerate(passage.encode()):
            values[(number * 31 + letter) % self.dimensions] += letter
        return (values / np.linalg.norm(values)).astype("<f4").tobytes()


def embed_pending(
    folder: Path, model: LetterModel, between: Callable[[], None] = lambda: None
) -> int:
    """Embed all that waits for a vector; `between` runs before they are written."""
    made = {c.content_hash: model.embed(c.passage) for c in pending(folder, model.model)}
    between()
    return attach(folder, model.model, model.dimensions, made)
