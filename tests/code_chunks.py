"""Chunk files for tests of code search: small projects, written as an indexer writes them."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cortex.toolsets.code.building import build
from cortex.toolsets.code.loading import read_files
from cortex.toolsets.code.models import CHUNK_FILES, Chunk, ChunkType
from cortex.toolsets.code.search import Filters, Snapshot
from cortex.toolsets.code.terms import read_query


def chunk(
    path: str,
    text: str,
    *names: str,
    chunk_type: ChunkType = "definitions",
    tags: Sequence[str] = ("code", "python"),
    part: int = 0,
) -> Chunk:
    """Return a chunk of a file."""
    metadata: dict[str, Any] = {"source": "code", "file_path": path, "language": "python"}
    metadata |= {"start_line": 1 + part * 10, "end_line": 9 + part * 10, "names": list(names)}
    return Chunk(
        id=f"code-{chunk_type}-{path}-{part}",
        chunk_type=chunk_type,
        title=f"{path} {chunk_type}",
        text=text,
        tags=tuple(tags),
        metadata=metadata,
        created_at="2026-01-02T03:04:05Z",
        updated_at="2026-01-02T03:04:05Z",
    )


def snapshot_of(*chunks: Chunk, vectors: Mapping[str, Sequence[float]] | None = None) -> Snapshot:
    """Return the state of a project of these chunks, in this order."""
    with tempfile.TemporaryDirectory() as folder:
        write_chunks(Path(folder), chunks, vectors)
        return build(read_files(Path(folder)))


def found(snapshot: Snapshot, query: str, limit: int = 10, **filters: Any) -> list[str]:
    """Return the paths of what a query finds, best first."""
    ranked = snapshot.ranked(read_query(query), None, Filters(**filters), limit)
    return [snapshot.files.paths[int(number)] for number in snapshot.file_of[ranked.chunk]]


def write_chunks(
    folder: Path,
    chunks: Sequence[Chunk],
    vectors: Mapping[str, Sequence[float]] | None = None,
    model: str = "test-model",
) -> None:
    """Write the chunk files of a project, each whole, as an indexer does."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, name in CHUNK_FILES.items():
        items = [_item(each, (vectors or {}).get(each.id)) for each in chunks]
        items = [item for item in items if item["chunk_type"] == kind]
        head = {"model": model, "dimensions": 384, "chunk_type": kind, "version": "2.0.0"}
        write_whole(folder / name, json.dumps({"_metadata": head, "chunks": items}))


def write_whole(path: Path, text: str) -> None:
    """Put a file in place of another at once."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def _item(each: Chunk, vector: Sequence[float] | None) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": each.id,
        "chunk_type": each.chunk_type,
        "title": each.title,
        "text": each.text,
        "tags": list(each.tags),
        "metadata": dict(each.metadata),
        "created_at": each.created_at,
        "updated_at": each.updated_at,
    }
    return item | ({"embedding": list(vector)} if vector is not None else {})
