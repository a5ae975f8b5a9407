"""A file in, its chunks out: the one way from text to chunks, a pure function."""

from collections.abc import Iterator
from dataclasses import dataclass

from cortex.toolsets.code.indexing import labels
from cortex.toolsets.code.indexing.code_chunks import CodeChunker
from cortex.toolsets.code.indexing.doc_chunks import DocLimits, doc_chunks
from cortex.toolsets.code.indexing.languages import Language
from cortex.toolsets.code.indexing.limits import CHARS_PER_TOKEN, ChunkLimits
from cortex.toolsets.code.indexing.outline import Outline, outline
from cortex.toolsets.code.indexing.splitting import Rows
from cortex.toolsets.code.indexing.symbol_chunks import symbol_chunks
from cortex.toolsets.code.indexing.text_chunks import text_chunks
from cortex.toolsets.code.models import Chunk


@dataclass(frozen=True, slots=True)
class Chunked:
    """The chunks of a file. `is_broken`: its grammar could make nothing of it."""

    chunks: tuple[Chunk, ...]
    is_broken: bool = False


def chunk_file(language: Language, path: str, source: bytes, limits: ChunkLimits) -> Chunked:
    """Return the chunks of a file, in order of their type and place."""
    text = source.decode("utf-8", "replace").removeprefix("\ufeff")
    rows = Rows([line.removesuffix("\r") for line in text.split("\n")])
    if rows.trimmed(0, len(rows.lines) - 1) is None:
        return Chunked(())
    ids = labels.Ids(path)
    if language.family == "documentation":
        sizes = DocLimits(
            limits.doc_tokens * CHARS_PER_TOKEN, limits.overlap_tokens * CHARS_PER_TOKEN
        )
        return Chunked(tuple(doc_chunks(language, path, rows, sizes, ids)))
    parsed = _outline(language, text, rows, limits)
    if parsed is None or parsed.is_broken:
        found = text_chunks(language, path, rows, limits.code_chars, ids)
    else:
        found = _code(language, path, rows, parsed, limits=limits, ids=ids)
    wanted = tuple(chunk for chunk in found if chunk.chunk_type in limits.chunk_types)
    return Chunked(wanted, is_broken=parsed is not None and parsed.is_broken)


def _outline(language: Language, text: str, rows: Rows, limits: ChunkLimits) -> Outline | None:
    if not language.grammar:
        return None
    return outline(language, text.encode(), rows.lines, limits.code_chars)


def _code(
    language: Language,
    path: str,
    rows: Rows,
    parsed: Outline,
    *,
    limits: ChunkLimits,
    ids: labels.Ids,
) -> Iterator[Chunk]:
    yield from symbol_chunks(
        language,
        path,
        parsed,
        row_count=len(rows.lines) if rows.lines[-1] else len(rows.lines) - 1,
        max_chars=limits.code_chars * 2,
        ids=ids,
    )
    yield from CodeChunker(language, path, rows, limits.code_chars).chunks(parsed, ids)
