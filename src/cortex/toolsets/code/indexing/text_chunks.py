"""Files without a grammar: settings by their keys, other languages by blank lines and indent."""

import re
from collections.abc import Iterator

from cortex.toolsets.code.indexing import labels
from cortex.toolsets.code.indexing.code_chunks import code_metadata, line_range
from cortex.toolsets.code.indexing.languages import Language
from cortex.toolsets.code.indexing.splitting import Piece, Rows
from cortex.toolsets.code.models import Chunk, ChunkType

_KEY = re.compile(r"""\s*(?:\[+\s*([^\]\n,]+?)\s*\]+\s*$|["']?([\w./@-]+)["']?\s*[:=])""")
_MAX_NAMES = 12


def text_chunks(
    language: Language, path: str, rows: Rows, max_chars: int, ids: labels.Ids
) -> Iterator[Chunk]:
    """Yield pieces of a file, cut where a reader would."""
    chunk_type: ChunkType = "data" if language.family == "data" else "definitions"
    for piece in rows.split(0, len(rows.lines) - 1, max_chars):
        names = _keys(piece, rows) if chunk_type == "data" else ()
        body = piece.text if piece.text is not None else rows.text(piece.start, piece.end)
        metadata = code_metadata(path, language, "")
        metadata |= {"start_line": piece.start + 1, "end_line": piece.end + 1}
        if names:
            metadata["names"] = list(names)
        yield Chunk(
            id=ids.code(chunk_type, names),
            chunk_type=chunk_type,
            title=labels.title(path, chunk_type, names),
            text=f"{language.mark} {line_range(piece.start + 1, piece.end + 1)}\n{body}",
            tags=labels.tags(("code", language.name, chunk_type), path),
            metadata=metadata,
        )


def _keys(piece: Piece, rows: Rows) -> tuple[str, ...]:
    """Return the outermost keys or tables in a piece; the keys of a table are inside it."""
    keyed: list[tuple[int, str]] = []
    has_table = False
    for line in rows.lines[piece.start : piece.end + 1]:
        match = _KEY.match(line[:200])
        if match and (match[1] or not has_table):
            has_table = has_table or match[1] is not None
            keyed.append((len(line) - len(line.lstrip()), match[1] or match[2]))
    least = min((indent for indent, _ in keyed), default=0)
    names = [name for indent, name in keyed if indent == least]
    return tuple(dict.fromkeys(names))[:_MAX_NAMES]
