"""Reading chunk files, ours and those of project-cortex 1.3.1, a chunk at a time. No state.

Our indexer writes one chunk a line, so that a chunk that is known is never even parsed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import orjson

from cortex.toolsets.code.models import CHUNK_FILES, Chunk, ChunkFileHead, ChunkType

_TYPES = frozenset(get_args(ChunkType))
_TAG_KEY = re.compile(r"tag_\d{1,4}")
_HEAD_END = b'"chunks":[\n'
_LAST_LINE = b"]}"


class CorruptChunks(Exception):
    """A chunk file that cannot be read as one: half written, or no chunk file at all."""


class NoChunk(Exception):
    """An entry of a chunk file that is no chunk; says what it lacks."""


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One chunk file in memory."""

    name: str
    kind: ChunkType
    head: ChunkFileHead
    _data: bytes
    _items: list[Any] | None

    def entries(self) -> Iterator[bytes | memoryview]:
        """Yield the JSON of each chunk: the same bytes for the same chunk."""
        if self._items is not None:
            yield from (orjson.dumps(item) for item in self._items)
            return
        view = memoryview(self._data)
        at = self._data.index(_HEAD_END) + len(_HEAD_END)
        while (end := self._data.find(b"\n", at)) >= 0 and not self._data.startswith(
            _LAST_LINE, at
        ):
            if end > at:
                yield view[at : end - 1] if view[end - 1] == ord(",") else view[at:end]
            at = end + 1


def read_files(folder: Path) -> list[ChunkFile]:
    """Read every chunk file of a folder; raises `CorruptChunks` if one is not whole."""
    files: list[ChunkFile] = []
    for kind, name in CHUNK_FILES.items():
        try:
            data = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CorruptChunks(f"{name}: {error.strerror}") from error
        files.append(_file(name, kind, data))
    return files


def _file(name: str, kind: ChunkType, data: bytes) -> ChunkFile:
    is_by_line = data.rstrip().endswith(b"\n" + _LAST_LINE)
    at = data.find(_HEAD_END, 0, 4096)
    try:
        if is_by_line and at >= 0 and data.find(b"\n") == at + len(_HEAD_END) - 1:
            document = orjson.loads(data[:at] + b'"chunks":[]}')
            items = None
        else:
            document = orjson.loads(data)
            items = cast("list[Any]", document["chunks"])
            if not all(isinstance(item, dict) for item in items):
                raise CorruptChunks(f"{name}: its chunks are no objects")
        head = _head(kind, document.get("_metadata") or {})
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptChunks(f"{name}: {_reason(error)}") from error
    return ChunkFile(name, kind, head, data, items)


def _head(kind: ChunkType, said: Mapping[str, Any]) -> ChunkFileHead:
    return ChunkFileHead(
        chunk_type=str(said.get("chunk_type") or kind),
        model=str(said.get("model") or ""),
        dimensions=int(said.get("dimensions") or 0),
    )


def parse(file: ChunkFile, entry: bytes | memoryview) -> tuple[Chunk, list[Any] | None]:
    """Return a chunk and its vector, as its file has it.

    Raises:
        CorruptChunks: the entry is not JSON, so its file is not whole.
        NoChunk: it is something else than a chunk.
    """
    try:
        item = cast("Mapping[str, Any]", orjson.loads(entry))
    except orjson.JSONDecodeError as error:
        raise CorruptChunks(f"{file.name}: {_reason(error)}") from error
    try:
        chunk = _chunk(item, file.kind)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoChunk(_reason(error)) from error
    vector = item.get("embedding")
    return chunk, cast("list[Any]", vector) if isinstance(vector, list) and vector else None


def _chunk(item: Mapping[str, Any], kind: ChunkType) -> Chunk:
    metadata = cast("Mapping[str, Any]", item.get("metadata") or {})
    chunk_type = item.get("chunk_type") or kind
    if not item["id"] or not item["text"]:
        raise ValueError("it has no id or no text")
    if chunk_type not in _TYPES:
        raise ValueError(f"there is no chunk type {chunk_type}")
    numbered = {int(key[4:]): tag for key, tag in metadata.items() if _TAG_KEY.fullmatch(key)}
    tags = item.get("tags") or [numbered[number] for number in sorted(numbered)]
    chunk = Chunk(
        id=str(item["id"]),
        chunk_type=cast("ChunkType", chunk_type),
        title=str(item.get("title") or ""),
        text=str(item["text"]),
        tags=tuple(str(tag) for tag in tags),
        metadata=metadata,
        created_at=str(item.get("created_at") or ""),
        updated_at=str(item.get("updated_at") or ""),
    )
    if not numbered:
        return chunk
    # There for the filter of project-cortex: `tags` says the same.
    kept = {key: value for key, value in metadata.items() if not _TAG_KEY.fullmatch(key)}
    return replace(chunk, metadata=kept)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    return str(error) or type(error).__name__
