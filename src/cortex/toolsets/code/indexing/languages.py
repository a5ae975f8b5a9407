"""What a language is to the indexer: its files, its comments, and the nodes of its grammar.

One table per language instead of one parser each; `outline.py` reads them all the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["type", "function", "data", "wrap", "into", "import", "package"]
"""What to do with a node: three become definitions. `wrap` belongs to what is inside it, as an
export or decorator does; `into` only holds others, as a namespace does."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a node of the grammar means, and where its name stands.

    `name` is a path of fields or child types; `declarator` follows those of C to the end.
    """

    role: Role
    kind: str = ""
    name: str = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A language; without a grammar its files are cut by blank lines and indentation."""

    name: str
    extensions: tuple[str, ...]
    filenames: tuple[str, ...] = ()
    family: Literal["code", "data", "documentation"] = "code"
    mark: str = "//"
    """What begins a comment of one line."""
    leads: tuple[str, ...] = ("//",)
    """What begins a line that belongs to the definition below it: comments, attributes."""
    blocks: tuple[tuple[str, str], ...] = (("/*", "*/"),)
    """Begin and end of comments of many lines."""
    grammar: str = ""
    """Module of the official wheel and its function, such as `tree_sitter_go:language`."""
    rules: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    values: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """Nodes that, given a name by a declaration, make it a function or type."""
    keyed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Nodes told apart by a text inside: `call` by its `target` is looked up as `call def`."""
    receivers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Nodes that name the type they belong to in a field of their own."""
    has_clauses: bool = False
    """Neighbours of one name are one definition: a signature and its equations."""


def types(nodes: str, kind: str = "", name: str = "name") -> dict[str, Rule]:
    """Return rules for nodes that define a type; without `kind`, it is the node's first word."""
    return {node: Rule("type", kind or node.split("_")[0], name) for node in nodes.split()}


def functions(nodes: str, kind: str = "function", name: str = "name") -> dict[str, Rule]:
    """Return rules for nodes that define a function."""
    return {node: Rule("function", kind, name) for node in nodes.split()}


def data(nodes: str, kind: str = "constant", name: str = "name") -> dict[str, Rule]:
    """Return rules for nodes that give a name to a value."""
    return {node: Rule("data", kind, name) for node in nodes.split()}


def plain(role: Role, nodes: str) -> dict[str, Rule]:
    """Return rules for nodes that define nothing themselves."""
    return {node: Rule(role) for node in nodes.split()}
