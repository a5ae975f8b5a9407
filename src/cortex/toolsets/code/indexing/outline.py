"""The definitions of a source file: what each is called, and where it begins and ends."""

import importlib
import re
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser

from cortex.toolsets.code.indexing.languages import Language, Role, Rule
from cortex.toolsets.code.indexing.naming import Naming, name_node, node_at, value_rule

# Deeper than any code a person wrote; what is below is still found, as text of what holds it.
_MAX_DEPTH = 60
# A statement this long may hold definitions worth finding: a module wrapped in a function.
_LONG_ROWS = 40
_MAX_COMMENT_ROWS = 200
_MAX_PARSE_S = 3.0
_READ_BYTES = 1024
# What the grammar did not understand still holds definitions that it did.
_ERROR = Rule("into")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A type, function or value with a name. Rows count from 0 and include comments above."""

    role: Role
    kind: str
    name: str
    signature: str
    start: int
    row: int
    end: int
    members: tuple["Definition", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What a file defines. `is_broken`: the grammar could make nothing of it."""

    package: str
    imports_count: int
    definitions: tuple[Definition, ...]
    is_broken: bool

    def every(self) -> Iterator[Definition]:
        """Yield the definitions and their members, in order."""
        pending = list(reversed(self.definitions))
        while pending:
            definition = pending.pop()
            yield definition
            pending.extend(reversed(definition.members))


@cache
def _parser(grammar: str) -> Parser:
    module, _, function = grammar.partition(":")
    capsule = cast("object", getattr(importlib.import_module(module), function)())
    return Parser(Grammar(capsule))


def outline(language: Language, source: bytes, lines: Sequence[str], max_chars: int) -> Outline:
    """Parse a file; functions longer than `max_chars` are looked into."""
    root = _parsed(language, source)
    if root is None:
        return Outline(package="", imports_count=0, definitions=(), is_broken=True)
    walk = _Walk(language, source, lines, max_chars)
    definitions = walk.inside(root, "", is_local=False, depth=0)
    return Outline(
        package=walk.package,
        imports_count=walk.imports_count,
        definitions=tuple(definitions),
        is_broken=not definitions and _is_mostly_errors(root),
    )


def _parsed(language: Language, source: bytes) -> Node | None:
    """Return the tree, or None if the grammar takes too long.

    Some need time that grows with the square of nested brackets. The parser has no time limit,
    but it asks for what it reads, and ends where that ends.
    """
    limit_s = time.process_time() + _MAX_PARSE_S

    def read(offset: int, _point: object) -> bytes:
        if time.process_time() > limit_s:
            return b""
        return source[offset : offset + _READ_BYTES]

    root = _parser(language.grammar).parse(read).root_node
    return root if time.process_time() <= limit_s else None


def _is_mostly_errors(root: Node) -> bool:
    parts = [root] if root.is_error else [child for child in root.children if child.is_error]
    return sum(part.end_byte - part.start_byte for part in parts) * 2 > root.end_byte


class _Walk:
    """One way through a tree, from the top, never into small functions."""

    def __init__(
        self, language: Language, source: bytes, lines: Sequence[str], max_chars: int
    ) -> None:
        self._language = language
        self._naming = Naming(language, source)
        # Not `Node.start_point`: reading points of 0.26.0 ends the process in files of any size.
        self._row_starts = [0, *(match.end() for match in re.finditer(b"\n", source))]
        self._lines = lines
        self._max_chars = max_chars
        self.package = ""
        self.imports_count = 0

    def inside(self, node: Node, scope: str, *, is_local: bool, depth: int) -> list[Definition]:
        """Return the definitions below a node, in order."""
        found: list[Definition] = []
        if depth < _MAX_DEPTH:
            for child in node.named_children:
                inner = self._of(child, scope, is_local, depth + 1)
                if self._language.has_clauses:
                    inner = _joined(found, inner)
                found.extend(inner)
        return found

    def _of(self, node: Node, scope: str, is_local: bool, depth: int) -> list[Definition]:
        rule = self._rule(node)
        if rule is None:
            return self._unknown(node, scope, is_local, depth)
        if rule.role == "import":
            self.imports_count += 1
            return []
        if rule.role == "package":
            self.package = self.package or self._naming.name(node, rule)
        if rule.role in {"package", "into", "wrap"}:
            inner = self.inside(node, scope, is_local=is_local, depth=depth)
            return self._stretched(inner, node) if rule.role == "wrap" else inner
        if rule.role == "data" and self._naming.is_import(node):
            self.imports_count += 1
            return []
        if rule.role == "data":
            rule = self._data_rule(node, rule, scope, is_local)
        if rule is None or (is_local and name_node(node, rule) is None):
            return []
        definition = self._definition(node, rule, scope, depth)
        return [definition] if definition else []

    def _rule(self, node: Node) -> Rule | None:
        language = self._language
        if node.is_error:
            return _ERROR
        if (field := language.keyed.get(node.type)) is not None:
            told = node_at(node, field)
            keyed = f"{node.type} {self._naming.text(told, 40)}" if told is not None else ""
            return language.rules.get(keyed) or language.rules.get(node.type)
        return language.rules.get(node.type)

    def _unknown(self, node: Node, scope: str, is_local: bool, depth: int) -> list[Definition]:
        if self._last_row(node) - self._row(node.start_byte) < (3 if is_local else _LONG_ROWS):
            return []
        inner = self.inside(node, scope, is_local=True, depth=depth)
        return [definition for definition in inner if definition.role != "data"]

    def _data_rule(self, node: Node, rule: Rule, scope: str, is_local: bool) -> Rule | None:
        valued = value_rule(node, self._language)
        if valued is not None:
            return Rule(valued.role, valued.kind, rule.name)
        name = self._naming.name(node, rule)
        if is_local or (scope and not self._naming.is_constant(node, name)):
            return None
        return rule

    def _definition(self, node: Node, rule: Rule, scope: str, depth: int) -> Definition | None:
        if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
            return None  # a use of the type, not its definition
        found = name_node(node, rule)
        name = self._naming.name(node, rule) or rule.kind
        qualified = f"{scope}.{name}" if scope else name
        is_long = node.end_byte - node.start_byte > self._max_chars
        members: list[Definition] = []
        is_plain = node.type == "type_definition"  # its struct is the type itself
        if (rule.role == "type" and not is_plain) or (is_long and rule.role == "function"):
            is_local = rule.role != "type"
            members = self.inside(node, qualified, is_local=is_local, depth=depth)
        row = self._row(node.start_byte)
        return Definition(
            role=rule.role,
            kind=self._naming.kind(node, rule, found),
            name=qualified,
            signature=self._naming.signature(node, rule, found, qualified),
            start=self._lead(row),
            row=row,
            end=self._last_row(node),
            members=tuple(members),
        )

    def _stretched(self, inner: list[Definition], node: Node) -> list[Definition]:
        if not inner:
            return inner
        first = replace(inner[0], start=self._lead(self._row(node.start_byte)))
        if len(inner) == 1:
            return [replace(first, end=self._last_row(node))]
        return [first, *inner[1:-1], replace(inner[-1], end=self._last_row(node))]

    def _row(self, offset: int) -> int:
        return bisect_right(self._row_starts, offset) - 1

    def _last_row(self, node: Node) -> int:
        """Return the row of the last byte that is not a line end."""
        return self._row(max(node.start_byte, node.end_byte - 1))

    def _lead(self, row: int) -> int:
        """Return the first row of the comments and attributes right above a row."""
        language = self._language
        while row > 0:
            line = self._lines[row - 1].strip()
            if line.startswith(language.leads):
                row -= 1
                continue
            # A block may stand one blank line above what it tells of, unless it heads the file.
            is_apart = not line and row > 1
            last = row - 2 if is_apart else row - 1
            line = self._lines[last].strip()
            begin = next((begin for begin, end in language.blocks if line.endswith(end)), None)
            top = self._block_top(last, begin) if begin and line else None
            if top is None or (is_apart and top == 0):
                break
            row = top
        return row

    def _block_top(self, row: int, begin: str) -> int | None:
        for top in range(row, max(-1, row - _MAX_COMMENT_ROWS), -1):
            line = self._lines[top].strip()
            if line.startswith(begin):
                return top
            if begin in line:
                return None  # a comment behind code
        return None


def _joined(found: list[Definition], inner: list[Definition]) -> list[Definition]:
    """Add the first of `inner` to the last of `found` if they are clauses of one function."""
    if not found or not inner:
        return inner
    last, first = found[-1], inner[0]
    if last.role != "function" or (last.name, last.role) != (first.name, first.role):
        return inner
    found[-1] = replace(last, end=first.end, members=(*last.members, *first.members))
    return inner[1:]
