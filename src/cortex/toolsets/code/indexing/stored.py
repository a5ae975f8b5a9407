"""The chunk files of a project as they lie there, and how they come to say something else."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cortex.toolsets.code.indexing.carried import Lines
from cortex.toolsets.code.indexing.chunk_files import read_head, read_lines, write_lines
from cortex.toolsets.code.indexing.record import Record
from cortex.toolsets.code.models import CHUNK_FILES, ChunkFileHead, ChunkType


class Damaged(Exception):
    """The chunk files are not what the record says, though they look like it."""


class Stored:
    """The four chunk files; each is read when it is needed and written when it is different."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heads: dict[ChunkType, ChunkFileHead] = {}
        self._lines: dict[ChunkType, list[bytes]] | None = None

    def is_as_in(self, record: Record) -> bool:
        """Tell whether the files are those that a record speaks of."""
        heads = {kind: read_head(self._folder / name) for kind, name in CHUNK_FILES.items()}
        return bool(record.generated) and all(
            head is not None and head.generated == record.generated.get(kind)
            for kind, head in heads.items()
        )

    def by_file(self, record: Record) -> dict[str, Lines]:
        """Return the lines of each known file, by chunk type.

        Raises:
            Damaged: there are more or fewer than the record says.
        """
        read = self._read()
        found: dict[str, Lines] = {path: [] for path in record.files}
        for number, chunk_type in enumerate(CHUNK_FILES):
            lines = read.get(chunk_type, [])
            at = 0
            for path, file in record.files.items():
                following = at + file.counts[number]
                found[path].append(lines[at:following])
                at = following
            if record.files and at != len(lines):
                raise Damaged
        return found

    def every_line(self) -> list[bytes]:
        """Return all lines, of whichever files."""
        return [line for lines in self._read().values() for line in lines]

    def lines(self) -> Mapping[ChunkType, Sequence[bytes]]:
        """Return the lines of each type that has a file of ours."""
        return self._read()

    def head(self, chunk_type: ChunkType) -> ChunkFileHead:
        """Return what the file of a type says about itself."""
        self._read()
        return self._heads.get(chunk_type) or ChunkFileHead(chunk_type=chunk_type)

    def generated(self, chunk_type: ChunkType) -> str:
        """Return when the file of a type was written."""
        return self._heads[chunk_type].generated

    def replace(
        self,
        chunk_type: ChunkType,
        lines: list[bytes],
        now: str,
        *,
        model: str | None = None,
        dimensions: int | None = None,
    ) -> bool:
        """Write a file if it is not so already; returns whether it was written."""
        read = self._read()
        head = self.head(chunk_type)
        if chunk_type in read and read[chunk_type] == lines:
            return False
        has_vectors = any(b',"embedding":[' in line for line in lines)
        head = replace(
            head,
            generated=now,
            model=(head.model if model is None else model) if has_vectors else "",
            dimensions=dimensions or head.dimensions,
        )
        write_lines(self._folder, chunk_type, head, lines)
        self._heads[chunk_type] = head
        read[chunk_type] = lines
        return True

    def _read(self) -> dict[ChunkType, list[bytes]]:
        if self._lines is None:
            self._lines = {}
            for chunk_type, name in CHUNK_FILES.items():
                if (read := read_lines(self._folder / name)) is not None:
                    self._heads[chunk_type], self._lines[chunk_type] = read
        return self._lines
