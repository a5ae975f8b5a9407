"""Turns a document into chunks: by headings, then by paragraphs, with the headings above."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cortex.toolsets.code.indexing import labels
from cortex.toolsets.code.indexing.headings import (
    Section,
    fenced_rows,
    front_matter_rows,
    markdown_sections,
    rst_sections,
)
from cortex.toolsets.code.indexing.languages import Language
from cortex.toolsets.code.indexing.splitting import Piece, Rows
from cortex.toolsets.code.models import Chunk

_HASHTAG = re.compile(r"(?:^|(?<=\s))#([A-Za-z][\w-]{1,39})(?![\w#/-])")
_COLOUR = re.compile(r"[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8}")
_MAX_FRONT_MATTER_CHARS = 16_384
_MAX_TAGS = 32
# A code fence stays whole, unless nobody would read it whole either.
_MAX_FENCE_CHARS = 16_000


@dataclass(frozen=True, slots=True)
class DocLimits:
    """How large a chunk of a document may be, and how much of the one before it repeats."""

    max_chars: int
    overlap_chars: int


def doc_chunks(
    language: Language, path: str, rows: Rows, limits: DocLimits, ids: labels.Ids
) -> Iterator[Chunk]:
    """Yield the chunks of a document, in order."""
    fenced = fenced_rows(rows.lines) if language.name == "markdown" else [False] * len(rows.lines)
    found = tuple(_document_tags(rows.lines, fenced)) if language.name == "markdown" else ()
    tags = labels.tags(("documentation", language.name), path, (*labels.path_tags(path), *found))
    for number, section in enumerate(_sections(language, rows)):
        above = " > ".join(section.headings)
        for piece_number, piece in enumerate(_pieces(section, rows, fenced, limits)):
            body = piece.text if piece.text is not None else rows.text(piece.start, piece.end)
            has_own_heading = piece_number == 0 and len(section.headings) < 2
            yield Chunk(
                id=ids.document(number, piece_number),
                chunk_type="documentation",
                title=labels.title(path, "documentation", [above] if above else []),
                text=body if has_own_heading or not above else f"{above}\n\n{body}",
                tags=tags,
                metadata={
                    "source": language.name,
                    "file_path": path,
                    "language": language.name,
                    "section_index": number,
                    "chunk_index": piece_number,
                    "headings": list(section.headings),
                    "start_line": piece.start + 1,
                    "end_line": piece.end + 1,
                },
            )


def _sections(language: Language, rows: Rows) -> list[Section]:
    """Return the sections that have text; a bare heading goes with the one below it."""
    if language.name == "markdown":
        every = markdown_sections(rows.lines)
    elif language.name == "rst":
        every = rst_sections(rows.lines)
    else:
        every = [Section(0, len(rows.lines) - 1, ())]
    kept: list[Section] = []
    start: int | None = None
    for section, following in zip(every, [*every[1:], None], strict=True):
        begin = section.start if start is None else start
        start = None
        is_bare = rows.trimmed(section.start + 1, section.end) is None
        is_parent = following is not None and len(following.headings) > len(section.headings)
        if section.headings and is_bare and is_parent:
            start = begin
        else:
            kept.append(Section(begin, section.end, section.headings))
    return kept


def _pieces(
    section: Section, rows: Rows, fenced: Sequence[bool], limits: DocLimits
) -> Iterator[Piece]:
    kept = rows.trimmed(section.start, section.end)
    if kept is None:
        return
    if rows.chars(*kept) <= limits.max_chars:
        yield Piece(*kept)
        return
    start, last_start = kept[0], -1
    for first, last in _groups(kept, rows, fenced, limits.max_chars):
        is_code = any(fenced[first : last + 1])
        most = _MAX_FENCE_CHARS if is_code else limits.max_chars
        if rows.chars(first, last) > most:
            yield from rows.split(first, last, limits.max_chars)
            start = last + 1
            continue
        begin = _overlapped(max(start, last_start + 1), first, rows, fenced, limits.overlap_chars)
        yield Piece(begin, last)
        start, last_start = first, begin


def _groups(
    kept: tuple[int, int], rows: Rows, fenced: Sequence[bool], max_chars: int
) -> Iterator[tuple[int, int]]:
    """Yield runs of whole paragraphs that fit; one that does not is a run of its own."""
    run: tuple[int, int] | None = None
    for first, last in _paragraphs(kept, rows, fenced):
        if run is not None and rows.chars(run[0], last) > max_chars:
            yield run
            run = None
        run = (run[0], last) if run is not None else (first, last)
    if run is not None:
        yield run


def _paragraphs(
    kept: tuple[int, int], rows: Rows, fenced: Sequence[bool]
) -> Iterator[tuple[int, int]]:
    first: int | None = None
    for row in range(kept[0], kept[1] + 1):
        is_break = not rows.lines[row].strip() and not fenced[row]
        if is_break and first is not None:
            yield first, row - 1
            first = None
        elif not is_break and first is None:
            first = row
    if first is not None:
        yield first, kept[1]


def _overlapped(
    floor: int, first: int, rows: Rows, fenced: Sequence[bool], overlap_chars: int
) -> int:
    """Return where a piece begins if it repeats the end of the one before, but no code."""
    begin = first
    while begin > floor and not fenced[begin - 1]:
        if rows.chars(begin - 1, first - 1) > overlap_chars:
            break
        begin -= 1
    kept = rows.trimmed(begin, first)
    return kept[0] if kept else first


def _document_tags(lines: Sequence[str], fenced: Sequence[bool]) -> Iterator[str]:
    top = front_matter_rows(lines)
    found = dict.fromkeys(_front_matter_tags("\n".join(lines[1 : top - 1])) if top else ())
    for row in range(top, len(lines)):
        if "#" in lines[row] and not fenced[row]:
            hits = _HASHTAG.findall(re.sub(r"`[^`]*`", " ", lines[row]))
            found |= {tag.lower(): None for tag in hits if not _COLOUR.fullmatch(tag)}
    yield from list(found)[:_MAX_TAGS]


def _front_matter_tags(text: str) -> Iterator[str]:
    """Yield the tags of a YAML block; one that does not parse has none, and stays text."""
    if len(text) > _MAX_FRONT_MATTER_CHARS:
        return
    import yaml  # noqa: PLC0415  # few documents have one

    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    tags = values.get("tags") if isinstance(values, dict) else None
    if isinstance(tags, str):
        tags = re.split(r"[,\s]+", tags)
    if isinstance(tags, list):
        for tag in tags:
            if isinstance(tag, str | int) and str(tag).strip():
                yield str(tag).strip().lstrip("#").lower()
