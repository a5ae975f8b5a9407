"""What new chunks take over from old ones: vectors, and when they came to be."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from cortex.toolsets.code.indexing.chunk_files import line_of
from cortex.toolsets.code.models import CHUNK_FILES, Chunk

Lines = list[Sequence[bytes]]
"""The chunks of one file as JSON, a list for each chunk type."""


class Carried:
    """The old chunks of files that changed, by id and by content."""

    def __init__(self, old: Iterable[bytes]) -> None:
        self._by_id: dict[str, tuple[Chunk, bytes]] = {}
        self._vectors: dict[str, list[float]] = {}
        for line in old:
            chunk = chunk_of(line)
            if chunk is None:
                continue
            self._by_id[chunk.id] = (chunk, line)
            if vector := orjson.loads(line).get("embedding"):
                self._vectors[chunk.content_hash] = vector

    def lines(self, chunks: Sequence[Chunk], now: str) -> Lines:
        """Return new chunks as JSON; one that is as it was stays the same line."""
        return [
            [self._line(chunk, now) for chunk in chunks if chunk.chunk_type == chunk_type]
            for chunk_type in CHUNK_FILES
        ]

    def _line(self, chunk: Chunk, now: str) -> bytes:
        known, line = self._by_id.get(chunk.id, (None, b""))
        created_at = known.created_at if known is not None else now
        chunk = replace(chunk, created_at=created_at, updated_at=now)
        if known is not None and replace(chunk, updated_at=known.updated_at) == known:
            return line
        return line_of(chunk, self._vectors.get(chunk.content_hash))


def chunk_of(line: bytes) -> Chunk | None:
    """Return a chunk as it was written here, or None if somebody changed the line."""
    try:
        values = orjson.loads(line)
        metadata: Mapping[str, Any] = values["metadata"]
        return Chunk(
            id=values["id"],
            chunk_type=values["chunk_type"],
            title=values["title"],
            text=values["text"],
            tags=tuple(values["tags"]),
            metadata={key: item for key, item in metadata.items() if not key.startswith("tag_")},
            created_at=values["created_at"],
            updated_at=values["updated_at"],
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None
