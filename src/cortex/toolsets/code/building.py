"""From chunk files to a snapshot; what is unchanged is taken over from the one before."""

import time
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from cortex.toolsets.code.files import Files
from cortex.toolsets.code.loading import ChunkFile, NoChunk, parse
from cortex.toolsets.code.models import Chunk
from cortex.toolsets.code.postings import Pieces, Row, Rows, Vocabulary
from cortex.toolsets.code.ranking import Ints, standing
from cortex.toolsets.code.search import DEFINITION, Snapshot, Vectors
from cortex.toolsets.code.terms import PathTerms, chunk_counts, defined_names, path_terms

# A vocabulary of which chunks hold a smaller share is begun anew.
_USED_SHARE = 0.5
# Chunks read before others are let in: questions are answered while a project loads.
_TURN = 32


def build(files: Sequence[ChunkFile], before: Snapshot | None = None) -> Snapshot:
    """Build the state of a project beside the one before, which stays as it is."""
    if before is not None and _is_worn(before):
        before = None
    builder = _Builder(before)
    for file in files:
        for number, entry in enumerate(file.entries()):
            if number % _TURN == 0:
                time.sleep(0)
            builder.add(file, entry)
    return builder.snapshot(files)


def _is_worn(snapshot: Snapshot) -> bool:
    used = int(np.count_nonzero(np.diff(snapshot.postings.term_starts)))
    return used < _USED_SHARE * len(snapshot.vocabulary)


class _Builder:
    """Gathers what a snapshot is made of, chunk by chunk, in few large pieces of memory."""

    def __init__(self, before: Snapshot | None) -> None:
        self._before = before
        self._vocabulary = before.vocabulary if before else Vocabulary()
        self._rows = Rows()
        self._stored = Pieces()
        self._places = Places()
        self._tags: dict[str, array[int]] = {}
        self._ids: dict[int, int] = {}
        self._by_entry: dict[int, int] = {}
        self._by_content: dict[int, int] = {}
        self._contents = array("q")
        self._vectors, self._with_vector = bytearray(), array("i")
        # Chunks that were there before, and which they are now.
        self._old, self._new = array("q"), array("q")
        self._problems: list[str] = []

    def add(self, file: ChunkFile, entry: bytes | memoryview) -> None:
        """Add a chunk; one that cannot be used is left out and said."""
        key = hash(entry)
        before = self._before
        known = before.by_entry.get(key) if before else None
        try:
            if before and known is not None:
                self._take(before, known)
            else:
                self._read(file, entry)
        except NoChunk as reason:
            self._problems.append(f"{file.name}: a chunk is left out: {reason}")
        else:
            self._by_entry[key] = len(self._rows) - 1

    def _take(self, before: Snapshot, known: int) -> None:
        """Add a chunk as it was before."""
        number = self._number(before.ids[known], "a chunk")
        self._note(before.contents[known], number)
        self._rows.add(before.postings.row(known))
        self._stored.add(before.stored[known])
        self._places.add_known(before, known)
        self._old.append(known)
        self._new.append(number)

    def _read(self, file: ChunkFile, entry: bytes | memoryview) -> None:
        chunk, vector = parse(file, entry)
        number = self._number(hash(chunk.id), chunk.id)
        content = hash((chunk.title, chunk.text, chunk.file_path, chunk.chunk_type))
        self._note(content, number)
        before = self._before
        same = before.by_content.get(content) if before else None
        terms = self._places.add(chunk.file_path, chunk.chunk_type)
        if before and same is not None:
            self._rows.add(before.postings.row(same))
        else:
            self._rows.add(_row(chunk, terms, self._vocabulary))
        self._stored.add(_stored(chunk))
        for tag in {tag.casefold() for tag in chunk.tags}:
            self._tags.setdefault(tag, array("i")).append(number)
        if vector is not None:
            self._read_vector(file, chunk, number, vector)

    def _note(self, content: int, number: int) -> None:
        self._contents.append(content)
        self._by_content[content] = number

    def _number(self, id_hash: int, name: str) -> int:
        number = len(self._rows)
        if self._ids.setdefault(id_hash, number) != number:
            raise NoChunk(f"{name} is there twice")
        return number

    def _read_vector(self, file: ChunkFile, chunk: Chunk, number: int, values: list[Any]) -> None:
        wanted = file.head.dimensions
        try:
            vector = np.array(values, dtype=np.float32)
        except (TypeError, ValueError):
            vector = np.empty(0, dtype=np.float32)
        length = float(np.linalg.norm(vector))
        if len(vector) != wanted:
            fault = f"it has {len(values)} values, not {wanted} numbers"
        elif not 0 < length < np.inf:
            fault = "it has no direction"
        else:
            self._vectors += (vector / np.float32(length)).tobytes()
            self._with_vector.append(number)
            return
        self._problems.append(f"{chunk.id}: its vector is left out: {fault}")

    def snapshot(self, files: Sequence[ChunkFile]) -> Snapshot:
        """Put it all together."""
        places = self._places
        old, new = np.array(self._old, np.int32), np.array(self._new, np.int32)
        return Snapshot(
            vocabulary=self._vocabulary,
            postings=self._rows.postings(len(self._vocabulary)),
            files=Files(paths=list(places.paths), terms=places.terms),
            file_of=np.array(places.file_of, dtype=np.int32),
            standing=np.array(places.standing, dtype=np.float32),
            types=places.types,
            type_of=np.frombuffer(bytes(places.type_of), dtype=np.uint8),
            tags=self._all_tags(old, new),
            stored=self._stored,
            ids=array("q", self._ids),
            contents=self._contents,
            by_entry=self._by_entry,
            by_content=self._by_content,
            vectors=self._all_vectors(files, old, new),
            problems=tuple(self._problems),
        )

    def _all_tags(self, old: Ints, new: Ints) -> dict[str, Ints]:
        tags = {tag: np.array(numbers, dtype=np.int32) for tag, numbers in self._tags.items()}
        if self._before is None or not len(old):
            return tags
        now = np.full(len(self._before), -1, dtype=np.int32)
        now[old] = new
        for tag, numbers in self._before.tags.items():
            kept = now[numbers]
            kept = kept[kept >= 0]
            if len(kept):
                tags[tag] = np.sort(np.concatenate([tags.get(tag, kept[:0]), kept]))
        return tags

    def _all_vectors(self, files: Sequence[ChunkFile], old: Ints, new: Ints) -> Vectors | None:
        """Return the vectors of all chunks as rows of length 1, zeros where there is none."""
        known = self._before.vectors if self._before else None
        is_any = bool(self._with_vector) or (known is not None and bool(known.is_there[old].any()))
        heads = {(file.head.model, file.head.dimensions) for file in files if file.head.model}
        if not is_any or not heads:
            return None
        if len(heads) > 1:
            names = " and ".join(sorted(f"{model} ({size})" for model, size in heads))
            self._problems.append(f"the chunks were embedded by {names}: vectors are not used")
            return None
        model, dimensions = heads.pop()
        rows = np.zeros((len(self._rows), dimensions), dtype=np.float32)
        is_there = np.zeros(len(rows), dtype=np.bool_)
        if known is not None and known.dimensions == dimensions:
            rows[new], is_there[new] = known.rows[old], known.is_there[old]
        fresh = np.array(self._with_vector, dtype=np.int32)
        rows[fresh] = np.frombuffer(self._vectors, dtype=np.float32).reshape(-1, dimensions)
        is_there[fresh] = True
        return Vectors(rows=rows, is_there=is_there, model=model)


class Places:
    """Where chunks stand: file, type, and what both make them worth."""

    def __init__(self) -> None:
        self.paths: dict[str, int] = {}
        self.terms: list[PathTerms] = []
        self.types: list[str] = []
        self.file_of, self.type_of, self.standing = array("i"), bytearray(), array("f")
        self._worth: dict[tuple[str, str], float] = {}

    def add(self, path: str, chunk_type: str) -> PathTerms:
        """Add a chunk; returns what its path says."""
        if path not in self.paths:
            self.paths[path] = len(self.paths)
            self.terms.append(path_terms(path))
        place = (path, chunk_type)
        if place not in self._worth:
            self._worth[place] = standing(path, chunk_type)
        self._put(self.paths[path], chunk_type, self._worth[place])
        return self.terms[self.paths[path]]

    def add_known(self, before: Snapshot, number: int) -> None:
        """Add a chunk that stands where it stood."""
        file = int(before.file_of[number])
        path = before.files.paths[file]
        if path not in self.paths:
            self.paths[path] = len(self.paths)
            self.terms.append(before.files.terms[file])
        chunk_type = before.types[int(before.type_of[number])]
        self._put(self.paths[path], chunk_type, float(before.standing[number]))

    def _put(self, file: int, chunk_type: str, worth: float) -> None:
        if chunk_type not in self.types:
            self.types.append(chunk_type)
        self.file_of.append(file)
        self.type_of.append(self.types.index(chunk_type))
        self.standing.append(worth)


def _row(chunk: Chunk, where: PathTerms, vocabulary: Vocabulary) -> Row:
    names = defined_names(chunk)
    counts, words = chunk_counts(chunk, names, where)
    # An overview lists what others define; it is not the definition.
    if chunk.chunk_type != "symbols":
        for name in names:
            counts[DEFINITION + name] = counts[DEFINITION + name.lower()] = 1
    return vocabulary.row(counts, words)


def _stored(chunk: Chunk) -> bytes:
    """Return a chunk as an answer shows it: everything but its vector."""
    return orjson.dumps(
        {
            "id": chunk.id,
            "chunk_type": chunk.chunk_type,
            "title": chunk.title,
            "text": chunk.text,
            "tags": chunk.tags,
            "metadata": chunk.metadata,
            "created_at": chunk.created_at,
            "updated_at": chunk.updated_at,
        }
    )
