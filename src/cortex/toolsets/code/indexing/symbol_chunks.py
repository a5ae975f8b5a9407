"""The overview of a source file: its package, imports, types and functions, with their lines."""

from collections.abc import Iterator

from cortex.toolsets.code.indexing import labels
from cortex.toolsets.code.indexing.code_chunks import code_metadata, line_range
from cortex.toolsets.code.indexing.languages import Language
from cortex.toolsets.code.indexing.outline import Definition, Outline
from cortex.toolsets.code.models import Chunk

# They hold the members of a type that is defined elsewhere.
_NOT_TYPES = frozenset({"impl", "instance", "extension", "namespace"})


def symbol_chunks(
    language: Language,
    path: str,
    outline: Outline,
    *,
    row_count: int,
    max_chars: int,
    ids: labels.Ids,
) -> Iterator[Chunk]:
    """Yield the overview, in more than one chunk only if it is very long."""
    every = list(outline.every())
    types = [d for d in every if d.role == "type" and d.kind not in _NOT_TYPES]
    functions = [d for d in every if d.role == "function"]
    if not types and not functions:
        return
    metadata = code_metadata(path, language, outline.package) | {
        "package": outline.package,
        "imports_count": outline.imports_count,
        "types_count": len(types),
        "functions_count": len(functions),
        "start_line": 1,
        "end_line": row_count,
    }
    head = [f"Package: {outline.package}"] if outline.package else []
    head += [f"Imports: {outline.imports_count} packages"] if outline.imports_count else []
    listed = [("Types:", f"{d.name} ({d.kind})", d) for d in types]
    listed += [("Functions:", d.signature, d) for d in functions]
    for text in _texts(head, listed, max_chars):
        yield Chunk(
            id=ids.code("symbols"),
            chunk_type="symbols",
            title=labels.title(path, "symbols"),
            text=text,
            tags=labels.tags(("code", language.name, "symbols"), path),
            metadata=metadata,
        )


def _texts(
    head: list[str], listed: list[tuple[str, str, Definition]], max_chars: int
) -> Iterator[str]:
    parts = list(head)
    group, size = "", 0
    for heading, line, definition in listed:
        where = line_range(definition.start + 1, definition.end + 1).lower()
        entry = f"  - {line} ({where})"
        if size + len(entry) > max_chars:
            yield "\n\n".join(parts)
            parts, group, size = [], "", 0
        if heading != group:
            parts.append(heading)
            group = heading
        parts[-1] += f"\n{entry}"
        size += len(entry)
    yield "\n\n".join(parts)
