"""Values of code search: a chunk of a repository, as the chunk files of seed 001 hold it."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ChunkType = Literal["symbols", "definitions", "data", "documentation"]
Vector = bytes
"""Little-endian 32-bit floats: `np.frombuffer(vector, "<f4")`. Indexing need not load NumPy."""

CHUNK_FILES: Mapping[ChunkType, str] = {
    "symbols": "code-symbols.json",
    "definitions": "code-definitions.json",
    "data": "code-data.json",
    "documentation": "doc-chunks.json",
}
"""The file of each chunk type below `.cortex/chunks`, in the order they are written."""
GENERATOR_OUTPUT = "generator-output.json"
"""Written last: what the chunk files were made from."""
FORMAT_VERSION = "2.0.0"

# Where a chunk stands is said in its text, for readers; it must not change what the chunk means.
_POSITION = re.compile(r"(?m)^\S{1,4} Lines? \d+(?:-\d+)?\n| \(lines? \d+(?:-\d+)?\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a file that can be found: text, where it stands, and its vector if it has one."""

    id: str
    chunk_type: ChunkType
    title: str
    text: str
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    created_at: str = ""
    updated_at: str = ""
    embedding: Vector | None = field(default=None, compare=False, repr=False)

    @property
    def file_path(self) -> str:
        """The file it comes from, relative to the project, or nothing if nobody wrote it down."""
        return str(self.metadata.get("file_path", ""))

    @property
    def language(self) -> str:
        """The language of the file, such as `python`, `markdown` or `yaml`."""
        return str(self.metadata.get("language", ""))

    @property
    def start_line(self) -> int:
        """The first line, counted from 1; 0 where it is not known (files of project-cortex)."""
        return int(self.metadata.get("start_line", 0))

    @property
    def end_line(self) -> int:
        """The last line, itself included; 0 where it is not known."""
        return int(self.metadata.get("end_line", 0))

    @property
    def content(self) -> str:
        """The text without line numbers: what words are taken from."""
        return _POSITION.sub("", self.text)

    @property
    def passage(self) -> str:
        """What is embedded: the title, which holds path and name, and the content."""
        return f"{self.title}\n{self.content}"

    @property
    def content_hash(self) -> str:
        """SHA-256 of the passage: the same hash means the same vector from the same model."""
        return hashlib.sha256(self.passage.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFileHead:
    """The `_metadata` of a chunk file. `model` is empty while no chunk has a vector."""

    chunk_type: str
    model: str = ""
    dimensions: int = 384
    generated: str = ""
    version: str = FORMAT_VERSION
