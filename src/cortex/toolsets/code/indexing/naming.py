"""Names, kinds and signatures of definitions, read from their nodes."""

import re

from tree_sitter import Node

from cortex.toolsets.code.indexing.languages import Language, Rule

_MAX_NAME_CHARS = 80
_MAX_SIGNATURE_CHARS = 160
_MAX_HEAD_BYTES = 2048
_BODIES = frozenset({"do_block", "block", "function_body"})
# Words before a name that say more than the node does: `enum class State`, `extension Player`.
_KIND_WORDS = ("interface", "enum", "struct", "extension", "actor", "annotation", "record")
_TYPED_KINDS = {
    "struct_type": "struct",
    "interface_type": "interface",
    "struct_specifier": "struct",
    "enum_specifier": "enum",
    "union_specifier": "union",
    "class_specifier": "class",
}
# Between a declaration and the value or declarator that says what it is.
_PASSED = frozenset(
    "variable_declarator assignment_statement expression_list pointer_declarator"
    " reference_declarator type_spec type_alias".split()
)
_FIRST_NAME = re.compile(r"\"([^\"\n]*)|[\w.!?]+")
_RECEIVER = re.compile(r"(\w+)(?:\[[^\]]*\])?\s*\)$")
_CONSTANT_NAME = re.compile(r"_{0,2}[A-Z][A-Z0-9_]*")
_CONSTANT_HEAD = re.compile(
    r"\bconst\b|\bval [A-Z]|\bstatic\b.*\b(?:final|let|readonly)\b", re.DOTALL
)
_IMPORTED = re.compile(r"=\s*(?:require\b|@import\(|(?:await )?import\()")


def node_at(node: Node, path: str) -> Node | None:
    """Return the node at the end of a path of fields or child types."""
    at: Node | None = node
    for step in path.split("."):
        at = child_at(at, step) if at is not None else None
    return at


def child_at(node: Node, step: str) -> Node | None:
    """Return the child in a field, or else the first one of a type."""
    found = node.child_by_field_name(step)
    if found is not None:
        return found
    return next((child for child in node.named_children if child.type == step), None)


def name_node(node: Node, rule: Rule) -> Node | None:
    """Return the node that holds the name, by the path of the rule."""
    if rule.name == "declarator":
        return _declared(node)
    at = node_at(node, rule.name.partition("+")[0])
    if at is None and rule.name == "type_spec.name":
        return node_at(node, "type_alias.name")
    return at


def _declared(node: Node) -> Node | None:
    """Return the innermost declarator of C, where the name is."""
    at = child_at(node, "declarator")
    while at is not None:
        following = at.child_by_field_name("declarator") or next(
            (child for child in at.named_children if child.type.endswith("declarator")), None
        )
        if following is None:
            return at
        at = following
    return None


def value_rule(node: Node, language: Language) -> Rule | None:
    """Return what a declaration is by its value: a function, a type, or a prototype."""
    pending = list(node.named_children)
    while pending:
        child = pending.pop(0)
        if child.type in language.values:
            return language.values[child.type]
        if child.type in _PASSED:
            pending.extend(child.named_children)
    return None


class Naming:
    """Reads names out of one source."""

    def __init__(self, language: Language, source: bytes) -> None:
        self._language = language
        self._source = source

    def text(self, node: Node, max_bytes: int = 4096) -> str:
        """Return the source of a node, or its beginning."""
        end = min(node.end_byte, node.start_byte + max_bytes)
        return self._between(node.start_byte, end)

    def name(self, node: Node, rule: Rule) -> str:
        """Return the name of a definition, with the type it belongs to if it says so itself."""
        found = name_node(node, rule)
        if found is None:
            return rule.name if rule.name == "init" else ""
        text = " ".join(self.text(found).split())
        if rule.name == "arguments":
            match = _FIRST_NAME.search(text)
            text = (match[1] or match[0]) if match else ""
        for field in rule.name.split("+")[1:]:
            part = child_at(node, field)
            text += f" {' '.join(self.text(part).split())}" if part is not None else ""
        if (field := self._language.receivers.get(node.type)) and (owner := child_at(node, field)):
            match = _RECEIVER.search(self.text(owner))
            text = f"{match[1]}.{text}" if match else text
        return text[:_MAX_NAME_CHARS]

    def kind(self, node: Node, rule: Rule, name: Node | None) -> str:
        """Return the kind, from the words before the name or the type that is named."""
        if rule.role != "type":
            return rule.kind
        if name is not None and node.type in {"class_declaration", "class_definition"}:
            words = self._between(node.start_byte, name.start_byte).split()
            return next((word for word in _KIND_WORDS if word in words), rule.kind)
        for holder in (node, *(child for child in node.named_children if child.type in _PASSED)):
            typed = holder.child_by_field_name("type")
            if typed is not None and typed.type in _TYPED_KINDS:
                return _TYPED_KINDS[typed.type]
        return rule.kind

    def is_constant(self, node: Node, name: str) -> bool:
        """Tell whether a member of a type is a constant, by its name or its modifiers."""
        if node.type == "unary_operator":  # a module attribute of Elixir
            return True
        if _CONSTANT_NAME.fullmatch(name):
            return True
        return _CONSTANT_HEAD.search(self.text(node, 200).partition("=")[0]) is not None

    def is_import(self, node: Node) -> bool:
        """Tell whether a declaration gives a name to a module: `const http = require("http")`."""
        return _IMPORTED.search(self.text(node, 200)) is not None

    def signature(self, node: Node, rule: Rule, name: Node | None, qualified: str) -> str:
        """Return name, parameters and result on one line."""
        if name is None or "+" in rule.name:
            return qualified
        if rule.name == "arguments":
            rest = _FIRST_NAME.sub("", " ".join(self.text(name).split()), count=1)
            return f"{qualified}{rest.partition(', do:')[0]}".strip('"')[:_MAX_SIGNATURE_CHARS]
        body = node.child_by_field_name("body") or next(
            (c for c in node.named_children if c.type in _BODIES), None
        )
        end = body.start_byte if body else node.end_byte
        rest = self._between(name.end_byte, min(end, name.end_byte + _MAX_HEAD_BYTES))
        if body is None:
            rest = rest.partition("\n")[0]
        space = " " if rest[:1].isspace() else ""
        line = f"{space}{' '.join(rest.split())}".rstrip('{=:;" ')
        return f"{qualified}{line}"[:_MAX_SIGNATURE_CHARS]

    def _between(self, start: int, end: int) -> str:
        return self._source[start : max(start, end)].decode("utf-8", "replace")
