"""The chunk files on disk: written whole or not at all, one chunk a line, in the seed's format.

A line is the JSON of one chunk, so that chunks of unchanged files are carried over as bytes.
Chunks are in the order of their paths; who knows how many each file has, finds them by counting.
"""

import contextlib
import fcntl
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import orjson

from cortex.errors import Unavailable
from cortex.toolsets.code.models import CHUNK_FILES, Chunk, ChunkFileHead, ChunkType

_TEMPORARY = ".tmp"
_BETWEEN = b",\n"
_END = b"\n]}\n"


def line_of(chunk: Chunk, embedding: Sequence[float] | None = None) -> bytes:
    """Return a chunk as JSON, its keys in the order of project-cortex, tags twice for its filter.

    A chunk without a vector has no `embedding`: project-cortex 1.3.1 leaves out such a file.
    """
    numbered = {f"tag_{number}": tag for number, tag in enumerate(chunk.tags)}
    parts: dict[str, Any] = {
        "id": chunk.id,
        "chunk_type": chunk.chunk_type,
        "title": chunk.title,
        "text": chunk.text,
        **({"embedding": embedding} if embedding is not None else {}),
        "tags": chunk.tags,
        "metadata": dict(sorted({**chunk.metadata, **numbered}.items())),
        "created_at": chunk.created_at,
        "updated_at": chunk.updated_at,
    }
    return orjson.dumps(parts, option=orjson.OPT_SERIALIZE_NUMPY)


def read_head(path: Path) -> ChunkFileHead | None:
    """Return the head of a file that was written here, or None if there is no such file."""
    try:
        with path.open("rb") as file:
            first = file.readline(4096)
    except OSError:
        return None
    return _head(first)


def read_lines(path: Path) -> tuple[ChunkFileHead, list[bytes]] | None:
    """Return head and chunks of a file that was written here, or None if it is not one."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = data.find(b"\n") + 1
    head = _head(data[:start])
    if head is None or not data.endswith(_END):
        return None
    body = data[start : len(data) - len(_END)]
    return head, body.split(_BETWEEN) if body else []


def _head(first: bytes) -> ChunkFileHead | None:
    begin, end = b'{"_metadata":', b',"chunks":[\n'
    if not first.startswith(begin) or not first.endswith(end):
        return None
    try:
        values = orjson.loads(first[len(begin) : -len(end)])
        return ChunkFileHead(**values)
    except (orjson.JSONDecodeError, TypeError):
        return None


def write_lines(
    folder: Path, chunk_type: ChunkType, head: ChunkFileHead, lines: Sequence[bytes]
) -> None:
    """Write the file of a chunk type."""
    values = {
        "model": head.model,
        "dimensions": head.dimensions,
        "chunk_type": chunk_type,
        "generated": head.generated,
        "version": head.version,
    }
    first = b'{"_metadata":' + orjson.dumps(values) + b',"chunks":['
    write_atomically(
        folder, CHUNK_FILES[chunk_type], b"\n".join([first, _BETWEEN.join(lines)]) + _END
    )


def write_atomically(folder: Path, name: str, data: bytes, *, is_last: bool = False) -> None:
    """Put a file in place so that a reader, or a crash, sees the old one or the new one.

    The last file of a run also makes the names of all of them last.

    Raises:
        Unavailable: the disk does not take it; the old file is still there.
    """
    temporary = folder / _TEMPORARY / name
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / name)
        if is_last:
            _sync_folder(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise Unavailable(f"{folder / name} cannot be written: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the folder for one writer; another one waits. A lock ends with its process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_out_of_git(folder)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def keep_out_of_git(folder: Path) -> None:
    """Have git leave the chunk files alone: they change with every run."""
    path = folder / ".gitignore"
    if not path.exists():
        path.write_text("*\n", "utf-8")
