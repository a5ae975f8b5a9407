"""Just enough of ClickHouse's lexer to take a migration file apart without being fooled by text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cortex.errors import StoreError

_TOKEN = re.compile(
    r"""(?P<comment>(?:--|//|\#[ !])[^\n]*|/\*(?:(?!/\*|\*/).)*\*/)
      | (?P<space>\s+)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<quoted>`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*")
      | (?P<word>\w+)
      | (?P<open>[(\[{])
      | (?P<close>[)\]}])
      | (?P<unended>['"`]|/\*)
      | (?P<symbol>.)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int
    end: int
    depth: int  # of brackets around it; a bracket itself counts as outside

    @property
    def upper(self) -> str:
        """The text as keywords are compared."""
        return self.text.upper()


def tokens(sql: str) -> Iterator[Token]:
    """Yield the words, texts and symbols of a statement, without space and comments."""
    for token in _lex(sql):
        if token.kind not in {"space", "comment"}:
            yield token


def split_statements(sql: str) -> list[str]:
    """Cut a file into statements; comments stay with the statement below them."""
    parts = _cut(sql, [token for token in tokens(sql) if token.text == ";"])
    return [part for part in parts if next(tokens(part), None)]


def split_list(sql: str) -> list[str]:
    """Cut a list at the commas that stand outside brackets."""
    return _cut(sql, [token for token in tokens(sql) if token.text == "," and token.depth == 0])


def split_comments(statement: str) -> tuple[list[str], str]:
    """Take the comments above a statement from it."""
    comments: list[str] = []
    for token in _lex(statement):
        if token.kind == "comment":
            comments.append(token.text)
        elif token.kind != "space":
            return comments, statement[token.start :]
    return comments, ""


def _cut(sql: str, cuts: list[Token]) -> list[str]:
    starts = [0, *(cut.end for cut in cuts)]
    ends = [*(cut.start for cut in cuts), len(sql)]
    return [sql[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _lex(sql: str) -> Iterator[Token]:
    depth = 0
    for match in _TOKEN.finditer(sql):
        kind = str(match.lastgroup)
        if kind == "unended":
            line = sql.count("\n", 0, match.start()) + 1
            raise StoreError(f"SQL with an unended or nested {match[0]} in line {line}")
        if kind == "close":
            depth -= 1
        yield Token(kind, match[0], match.start(), match.end(), depth)
        if kind == "open":
            depth += 1
