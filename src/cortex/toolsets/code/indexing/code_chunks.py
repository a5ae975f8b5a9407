"""Turns a source file into chunks: its overview, its definitions, and its data.

Every line with a word on it is in a chunk: what is between definitions is cut like text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.toolsets.code.indexing import labels
from cortex.toolsets.code.indexing.languages import Language
from cortex.toolsets.code.indexing.outline import Definition, Outline
from cortex.toolsets.code.indexing.splitting import Rows
from cortex.toolsets.code.models import Chunk, ChunkType

# Neighbours this small are read together: getters, prototypes, one-line helpers.
_SMALL_CHARS = 240
_TOGETHER_CHARS = 720
_HEAD_CHARS = 120
_MAX_NAMES = 64
_WORD = re.compile(r"[^\W_]")
_ONLY_END = re.compile(r"[^\w\n]*(?:end|fi|done|esac)?[^\w\n]*")
_CONDITION = re.compile(r"#\s*(?:if|ifdef|ifndef|else|elif|endif)\b")
_SHOUTED = re.compile(r"(?:.*\.)?[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Rows that belong together and what they define."""

    start: int
    end: int
    names: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    """What is defined inside, such as the methods of a whole class."""
    chunk_type: ChunkType = "definitions"
    context: str = ""
    text: str | None = None
    is_between: bool = False


class CodeChunker:
    """Makes the definitions and data of one file into chunks."""

    def __init__(self, language: Language, path: str, rows: Rows, max_chars: int) -> None:
        self._language = language
        self._path = path
        self._rows = rows
        self._max_chars = max_chars

    def chunks(self, outline: Outline, ids: labels.Ids) -> Iterator[Chunk]:
        """Yield a chunk for each unit of the file, in order."""
        units = self._level(outline.definitions, 0, len(self._rows.lines) - 1, "", "")
        merged = list(self._merged(units))
        covered = {
            row for u in merged if u.chunk_type == "data" for row in range(u.start, u.end + 1)
        }
        members = [
            unit
            for definition in outline.every()
            if definition.role == "data"
            and "." in definition.name
            and definition.start not in covered
            and definition not in outline.definitions
            for unit in self._whole(definition, definition.start, "")
        ]
        for unit in (*merged, *self._merged(members)):
            yield self._chunk(unit, outline, ids)

    def _level(
        self, definitions: Sequence[Definition], start: int, end: int, context: str, owner: str
    ) -> list[Unit]:
        units: list[Unit] = []
        at = start
        for definition in self._cut_out(sorted(definitions, key=lambda d: d.start)):
            if definition.end < at:  # shares its row with the one before
                if units:
                    units[-1] = replace(units[-1], names=(*units[-1].names, definition.name))
                continue
            begin = max(definition.start, at)
            self._between(units, at, begin - 1, context, owner)
            units.extend(self._units(definition, begin, context))
            at = definition.end + 1
        self._between(units, at, end, context, owner)
        return units

    def _cut_out(self, definitions: Sequence[Definition]) -> Iterator[Definition]:
        """Yield all but the variables of scripts, which belong to the statements around them."""
        last = -1
        for number, definition in enumerate(definitions):
            following = definitions[number + 1].start if number + 1 < len(definitions) else None
            if not self._is_loose(definition, last, following):
                yield definition
                last = definition.end

    def _is_loose(self, definition: Definition, last: int, following: int | None) -> bool:
        if definition.role != "data":
            return False
        if definition.kind != "variable" and _SHOUTED.fullmatch(definition.name):
            return False
        if self._rows.chars(definition.start, definition.end) > _SMALL_CHARS:
            return False
        above, below = definition.start - 1, definition.end + 1
        touches_above = above > last and self._has_text(above)
        return touches_above or (below != following and self._has_text(below))

    def _has_text(self, row: int) -> bool:
        lines = self._rows.lines
        return 0 <= row < len(lines) and not _ONLY_END.fullmatch(lines[row][:200])

    def _units(self, definition: Definition, begin: int, context: str) -> list[Unit]:
        if self._rows.chars(begin, definition.end) <= self._max_chars or not definition.members:
            return self._whole(definition, begin, context)
        head = self._rows.lines[definition.row].strip()
        inside = self._level(definition.members, begin, definition.end, head, definition.name)
        inside = [replace(u, context=context) if u.start <= definition.row else u for u in inside]
        return self._with_head(inside)

    def _with_head(self, units: list[Unit]) -> list[Unit]:
        """Put a head of a line or two, which says little by itself, to the first member."""
        if len(units) < 2 or any(u.text is not None for u in units[:2]):
            return units
        head, first, *rest = units
        is_short = head.is_between and self._rows.chars(head.start, head.end) <= _HEAD_CHARS
        if not is_short or first.chunk_type != head.chunk_type:
            return units
        if self._rows.chars(head.start, first.end) > self._max_chars + _HEAD_CHARS:
            return units
        names = tuple(dict.fromkeys((*head.names, *first.names)))
        return [replace(first, start=head.start, names=names, context=head.context), *rest]

    def _whole(self, definition: Definition, begin: int, context: str) -> list[Unit]:
        has_functions = any(member.role == "function" for member in definition.members)
        is_data = definition.role == "data" or (definition.kind == "enum" and not has_functions)
        pieces = list(self._rows.split(begin, definition.end, self._max_chars))
        head = self._rows.lines[definition.row].strip()
        is_one = len(pieces) == 1
        return [
            Unit(
                start=piece.start,
                end=piece.end,
                names=(definition.name,),
                inner=tuple(_names_inside(definition)) if is_one else (),
                chunk_type="data" if is_data else "definitions",
                context=head if number else context,
                text=piece.text,
            )
            for number, piece in enumerate(pieces)
        ]

    def _between(self, units: list[Unit], start: int, end: int, context: str, owner: str) -> None:
        if start > end or (kept := self._rows.trimmed(start, end)) is None:
            return
        lines = [line.strip() for line in self._rows.lines[kept[0] : kept[1] + 1] if line.strip()]
        is_end = all(_ONLY_END.fullmatch(line[:200]) for line in lines)
        if is_end or (units and all(_CONDITION.match(line) for line in lines)):
            if units and units[-1].text is None and units[-1].end < kept[0]:
                units[-1] = replace(units[-1], end=kept[1])
            return
        units.extend(
            Unit(
                start=piece.start,
                end=piece.end,
                names=(owner,) if owner else (),
                context=context,
                text=piece.text,
                is_between=True,
            )
            for piece in self._rows.split(*kept, self._max_chars)
            if _WORD.search(piece.text or self._rows.text(piece.start, piece.end))
        )

    def _merged(self, units: Sequence[Unit]) -> Iterator[Unit]:
        held: Unit | None = None
        last: Unit | None = None
        for unit in units:
            if held is not None and last is not None and self._belong(held, last, unit):
                names = tuple(dict.fromkeys((*held.names, *unit.names)))
                inner = (*held.inner, *unit.inner)
                held = replace(held, end=unit.end, names=names, inner=inner)
            else:
                if held is not None:
                    yield held
                held = unit
            last = unit
        if held is not None:
            yield held

    def _belong(self, held: Unit, last: Unit, unit: Unit) -> bool:
        same = (held.chunk_type, held.context, held.is_between)
        if same != (unit.chunk_type, unit.context, unit.is_between):
            return False
        if not (self._is_small(last) and self._is_small(unit)):
            return False
        limit = min(_TOGETHER_CHARS, self._max_chars)
        return self._rows.chars(held.start, unit.end) <= limit

    def _is_small(self, unit: Unit) -> bool:
        return unit.text is None and self._rows.chars(unit.start, unit.end) <= _SMALL_CHARS

    def _chunk(self, unit: Unit, outline: Outline, ids: labels.Ids) -> Chunk:
        mark = self._language.mark
        context = f"{mark} In {unit.context[:200]}\n" if unit.context else ""
        body = unit.text if unit.text is not None else self._rows.text(unit.start, unit.end)
        lines = line_range(unit.start + 1, unit.end + 1)
        metadata = code_metadata(self._path, self._language, outline.package)
        metadata |= {"start_line": unit.start + 1, "end_line": unit.end + 1}
        if unit.names:
            metadata["names"] = list(dict.fromkeys((*unit.names, *unit.inner)))[:_MAX_NAMES]
        return Chunk(
            id=ids.code(unit.chunk_type, unit.names),
            chunk_type=unit.chunk_type,
            title=labels.title(self._path, unit.chunk_type, unit.names),
            text=f"{mark} {lines}\n{context}{body}",
            tags=labels.tags(("code", self._language.name, unit.chunk_type), self._path),
            metadata=metadata,
        )


def _names_inside(definition: Definition) -> Iterator[str]:
    for member in definition.members:
        yield member.name
        yield from _names_inside(member)


def line_range(first: int, last: int) -> str:
    """Return `Lines 10-15`, or `Line 10`."""
    return f"Lines {first}-{last}" if first != last else f"Line {first}"


def code_metadata(path: str, language: Language, package: str) -> dict[str, Any]:
    """Return what every chunk of a source file says about it."""
    known = {"source": "code", "file_path": path, "language": language.name}
    return known | {"package": package} if package else known
