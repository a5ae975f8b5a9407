"""Vectors come after the words: which chunks wait for one, and how the files get them.

Whoever embeds asks for what is pending, in batches of its own size, and hands back what it has.
Both are safe beside a running `cortex index`: the folder is locked, and a vector belongs to a
content, not to a place.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cortex.toolsets.code.indexing.carried import chunk_of
from cortex.toolsets.code.indexing.chunk_files import line_of, locked
from cortex.toolsets.code.indexing.record import moment, read_record, write_record
from cortex.toolsets.code.indexing.stored import Stored
from cortex.toolsets.code.models import CHUNK_FILES, Chunk, Vector

_EMBEDDED = b',"embedding":['


def pending(folder: Path, model: str) -> Iterator[Chunk]:
    """Yield the chunks that have no vector of a model, in the order they are stored."""
    stored = Stored(folder)
    for chunk_type, lines in stored.lines().items():
        is_other_model = stored.head(chunk_type).model != model
        for line in lines:
            if is_other_model or _EMBEDDED not in line:
                chunk = chunk_of(line)
                if chunk is not None:
                    yield chunk


def attach(folder: Path, model: str, dimensions: int, vectors: Mapping[str, Vector]) -> int:
    """Write vectors, by content hash, into the chunk files; returns how many found their chunk.

    Vectors of another model are dropped: a file holds those of one model only.
    """
    import numpy as np  # noqa: PLC0415  # indexing does without; who embeds has it loaded

    known = {key: np.frombuffer(vector, "<f4") for key, vector in vectors.items()}
    if any(len(vector) != dimensions for vector in known.values()):
        raise ValueError(f"vectors of {dimensions} numbers are expected")
    attached = 0
    with locked(folder):
        record = read_record(folder)
        stored = Stored(folder)
        is_known = stored.is_as_in(record)
        now = moment()
        for chunk_type in CHUNK_FILES:
            is_other_model = stored.head(chunk_type).model != model
            lines = list(stored.lines().get(chunk_type, ()))
            for number, line in enumerate(lines):
                has_vector = _EMBEDDED in line
                if has_vector and not is_other_model:
                    continue
                chunk = chunk_of(line)
                if chunk is None:
                    continue
                vector: Any = known.get(chunk.content_hash)
                if vector is not None or has_vector:
                    lines[number] = line_of(chunk, vector)
                attached += vector is not None
            if lines and stored.replace(chunk_type, lines, now, model=model, dimensions=dimensions):
                record.generated[chunk_type] = now
        if is_known:
            write_record(folder, record, now=now, took_s=0.0)
    return attached


def drop(folder: Path) -> int:
    """Take every vector out of the chunk files, so that all are pending; returns how many."""
    dropped = 0
    with locked(folder):
        record = read_record(folder)
        stored = Stored(folder)
        is_known = stored.is_as_in(record)
        now = moment()
        for chunk_type in CHUNK_FILES:
            lines = list(stored.lines().get(chunk_type, ()))
            embedded = [number for number, line in enumerate(lines) if _EMBEDDED in line]
            for number in embedded:
                chunk = chunk_of(lines[number])
                lines[number] = line_of(chunk) if chunk is not None else lines[number]
            if embedded and stored.replace(chunk_type, lines, now):
                record.generated[chunk_type] = now
            dropped += len(embedded)
        if is_known:
            write_record(folder, record, now=now, took_s=0.0)
    return dropped
