"""The statements a migration may hold, and each one's form on a cluster.

On a cluster every table is two: `t_local`, replicated, keeps the rows of a shard, and `t`,
distributed over it, is what everyone names. A statement of a form not known here is refused when
it is read, so that a migration which works on one machine works on a cluster too. Every form is
idempotent: a migration that was killed half-way is run again from its top.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from cortex.errors import StoreError
from cortex.store.sql import Token, split_comments, split_list, tokens

_FORMS = {
    form: re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)
    for form, pattern in {
        "table": r"CREATE TABLE IF NOT EXISTS (?P<name>\w+)\s*(?=\()",
        "materialized view": (
            r"CREATE MATERIALIZED VIEW IF NOT EXISTS (?P<name>\w+) TO (?P<target>\w+)(?= AS )"
        ),
        "view": r"CREATE (?:OR REPLACE VIEW|VIEW IF NOT EXISTS) (?P<name>\w+)(?= AS )",
        "function": r"CREATE (?:OR REPLACE FUNCTION|FUNCTION IF NOT EXISTS) (?P<name>\w+)(?= AS )",
        "alter": r"ALTER TABLE (?P<name>\w+)(?= )",
        "drop table": r"DROP TABLE IF EXISTS (?P<name>\w+)\s*$",
        "drop view": r"DROP VIEW IF EXISTS (?P<name>\w+)\s*$",
    }.items()
}
_SHARD = re.compile(r"--\s*shard:\s*(.+?)\s*$")
_MERGE_TREE = re.compile(r"(?P<family>\w*MergeTree)$")

# What an ALTER does to columns is done to both tables; the rest concerns the local one alone.
_COLUMN_CHANGE = re.compile(
    "ADD COLUMN IF NOT EXISTS|DROP COLUMN IF EXISTS|RENAME COLUMN IF EXISTS|(MODIFY|COMMENT) COLUMN"
)
_LOCAL_CHANGE = re.compile(
    "ADD (INDEX|PROJECTION|CONSTRAINT|STATISTICS) IF NOT EXISTS"
    "|DROP (INDEX|PROJECTION|CONSTRAINT|STATISTICS) IF EXISTS"
    "|CLEAR (COLUMN|INDEX|PROJECTION) IF EXISTS"
    "|MATERIALIZE (COLUMN|INDEX|PROJECTION|STATISTICS|TTL)"
    "|MODIFY (TTL|SETTING|ORDER BY)|REMOVE TTL|RESET SETTING|DELETE WHERE"
)


@dataclass(frozen=True, slots=True)
class Statement:
    form: str
    name: str
    text: str
    head: str  # what its form matched; ON CLUSTER goes after it
    target: str = ""  # of a materialized view
    shard: str = ""  # of a table: the expression that places a row

    @property
    def tail(self) -> str:
        """What follows the head."""
        return self.text[len(self.head) :]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where statements are going: the cluster, the database, and the tables of all migrations."""

    name: str
    database: str
    tables: Collection[str]

    def variant(self, statement: Statement) -> list[str]:
        """Write the statements that do on a cluster what this one does on one machine."""
        match statement.form:
            case "table":
                return self._table(statement)
            case "materialized view":
                return self._materialized_view(statement)
            case "alter":
                return self._alter(statement)
            case "drop table":
                names = [statement.name]
                if statement.name in self.tables:
                    names.append(_local(statement.name))
                # Waits until Keeper has forgotten the table, so that it can be made anew.
                return [f"DROP TABLE IF EXISTS {name} {self._on} SYNC" for name in names]
            case _:
                return [f"{statement.head} {self._on}{statement.tail}"]

    @property
    def _on(self) -> str:
        return f"ON CLUSTER '{self.name}'"

    def _table(self, statement: Statement) -> list[str]:
        name, local = statement.name, _local(statement.name)
        if not statement.shard:
            raise _refused(statement.text, "a table needs `-- shard: <expression>` above it")
        over = f"'{self.name}', '{self.database}', '{local}', {statement.shard}"
        return [
            f"CREATE TABLE IF NOT EXISTS {local} {self._on} {_replicated(statement)}",
            f"CREATE TABLE IF NOT EXISTS {name} {self._on} AS {local} ENGINE = Distributed({over})",
        ]

    def _materialized_view(self, statement: Statement) -> list[str]:
        if statement.target not in self.tables:
            raise _refused(statement.text, f"no migration creates {statement.target}")
        select = _from_local(statement.tail, self.tables)
        head = f"CREATE MATERIALIZED VIEW IF NOT EXISTS {statement.name} {self._on}"
        return [f"{head} TO {_local(statement.target)}{select}"]

    def _alter(self, statement: Statement) -> list[str]:
        name = statement.name
        if name not in self.tables:
            raise _refused(statement.text, f"no migration creates {name}")
        changes = split_list(statement.tail)
        column_changes = [change for change in changes if _is_column_change(change, statement)]
        altered = [f"ALTER TABLE {_local(name)} {self._on} {', '.join(changes)}"]
        if column_changes:
            altered.append(f"ALTER TABLE {name} {self._on} {', '.join(column_changes)}")
        return altered


def read_statement(sql: str) -> Statement:
    """Recognise a statement and the directives in the comments above it."""
    comments, text = split_comments(sql)
    shards = [found[1] for comment in comments if (found := _SHARD.match(comment))]
    for form, pattern in _FORMS.items():
        match = pattern.match(text)
        if match:
            return Statement(
                form=form,
                name=match["name"],
                text=text,
                head=match[0].rstrip(),
                target=match["target"] if form == "materialized view" else "",
                shard=shards[-1] if shards else "",
            )
    raise _refused(text, "not a form that migrations may use")


def _local(table: str) -> str:
    return f"{table}_local"


def _refused(text: str, reason: str) -> StoreError:
    shown = " ".join(text.split())[:80]
    return StoreError(f"Migration statement refused, {reason}: {shown}")


def _replicated(statement: Statement) -> str:
    """Write a table's columns and clauses with its engine replaced by the replicated one."""
    tail = statement.tail
    outer = [token for token in tokens(tail) if token.depth == 0]
    engine = _engine_name(outer)
    if engine is not None and engine.text == "Null":
        return tail.strip()  # keeps no rows, only hands them on
    family = _MERGE_TREE.match(engine.text) if engine else None
    if engine is None or family is None:
        raise _refused(statement.text, "only engines of the MergeTree family can be replicated")
    arguments = f"'/clickhouse/tables/{{shard}}/{{database}}/{statement.name}', '{{replica}}'"
    rest = tail[engine.end :]
    own = re.match(r"\s*\(\s*", rest)
    if own:
        rest = rest[own.end() :]
        arguments += "" if rest.startswith(")") else ", "
    else:
        arguments += ")"
    before = tail[: engine.start].strip()
    return f"{before} Replicated{family['family']}({arguments}{rest}"


def _engine_name(outer: list[Token]) -> Token | None:
    for keyword, equals, engine in zip(outer, outer[1:], outer[2:], strict=False):
        if keyword.upper == "ENGINE" and equals.text == "=":
            return engine
    return None


def _from_local(select: str, tables: Collection[str]) -> str:
    """Make a view's SELECT read local tables, under the names it knows them by."""
    words = list(tokens(select))
    parts: list[str] = []
    done = 0
    for before, table, after in zip(words, words[1:], [*words[2:], None], strict=False):
        if before.upper in {"FROM", "JOIN"} and table.text in tables:
            has_alias = after is not None and after.upper == "AS"
            alias = "" if has_alias else f" AS {table.text}"
            parts += [select[done : table.start], _local(table.text), alias]
            done = table.end
    return "".join([*parts, select[done:]])


def _is_column_change(change: str, statement: Statement) -> bool:
    words = " ".join(token.upper for token in tokens(change))
    if _COLUMN_CHANGE.match(words):
        return True
    if _LOCAL_CHANGE.match(words):
        return False
    raise _refused(statement.text, f"not a change that migrations may make ({change[:40]})")
