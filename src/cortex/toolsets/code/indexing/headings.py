"""Sections of documents: where each heading stands, never inside a code fence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FENCE = re.compile(r"\s{0,3}(?:[-*+] |\d+[.)] )?\s*(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})\s+(.+?)(?:\s+#+)?\s*")
_SETEXT = re.compile(r" {0,3}(=+|-+)\s*")
_RST_LINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*")
_LIST_OR_QUOTE = re.compile(r"\s*(?:[-*+>|]|\d+[.)]) ?")


@dataclass(frozen=True, slots=True)
class Section:
    """Rows below a heading, the heading included, and the headings above it."""

    start: int
    end: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    row: int
    level: int
    title: str


def front_matter_rows(lines: Sequence[str]) -> int:
    """Return how many rows the YAML block at the top has, its borders included."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    for row in range(1, min(len(lines), 200)):
        if lines[row].rstrip() in {"---", "..."}:
            return row + 1
    return 0


def fenced_rows(lines: Sequence[str]) -> list[bool]:
    """Tell for each row whether it belongs to a code fence, its borders included."""
    fenced: list[bool] = []
    border = ""
    for line in lines:
        match = _FENCE.match(line)
        if not border:
            border = match[1] if match else ""
            fenced.append(bool(match))
            continue
        fenced.append(True)
        bare = line.strip()
        if bare and not bare.strip(border[0]) and len(bare) >= len(border):
            border = ""
    return fenced


def markdown_sections(lines: Sequence[str]) -> list[Section]:
    """Return the sections of a Markdown document."""
    fenced = fenced_rows(lines)
    top = front_matter_rows(lines)
    found: list[_Heading] = []
    for row in range(top, len(lines)):
        if fenced[row]:
            continue
        if match := _ATX.fullmatch(lines[row]):
            found.append(_Heading(row, len(match[1]), match[2]))
        elif row > top and (match := _SETEXT.fullmatch(lines[row])):
            title = lines[row - 1].strip()
            is_text = title and not fenced[row - 1] and not _LIST_OR_QUOTE.match(lines[row - 1])
            is_paragraph = row - 1 > top and lines[row - 2].strip()
            if is_text and not is_paragraph and not _ATX.fullmatch(lines[row - 1]):
                found.append(_Heading(row - 1, 1 if match[1][0] == "=" else 2, title))
    return _sections(found, len(lines))


def rst_sections(lines: Sequence[str]) -> list[Section]:
    """Return the sections of a reStructuredText document; levels as their lines first appear."""
    found: list[_Heading] = []
    styles: list[tuple[str, bool]] = []
    for row in range(1, len(lines)):
        title = lines[row - 1].rstrip()
        match = _RST_LINE.fullmatch(lines[row])
        if not match or not title.strip() or _RST_LINE.fullmatch(title):
            continue
        has_overline = row > 1 and lines[row - 2].rstrip() == lines[row].rstrip()
        if (title[0].isspace() and not has_overline) or len(lines[row].rstrip()) < len(title):
            continue
        style = (match[1], has_overline)
        if style not in styles:
            styles.append(style)
        top = row - 2 if has_overline else row - 1
        found.append(_Heading(top, styles.index(style) + 1, title.strip()))
    return _sections(found, len(lines))


def _sections(found: Sequence[_Heading], row_count: int) -> list[Section]:
    sections: list[Section] = []
    if not found or found[0].row > 0:
        sections.append(Section(0, (found[0].row if found else row_count) - 1, ()))
    above: list[_Heading] = []
    ends = [*(heading.row - 1 for heading in found[1:]), row_count - 1]
    for heading, end in zip(found, ends[: len(found)], strict=True):
        above = [*(h for h in above if h.level < heading.level), heading]
        sections.append(Section(heading.row, end, tuple(h.title for h in above)))
    return sections
