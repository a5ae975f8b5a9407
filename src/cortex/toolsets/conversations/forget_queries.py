"""All SQL of forgetting: what a rule means, and taking it out of every table and off the disk.

Rows are removed by mutations that rewrite files, not by masks that hide rows. Everything may be run
again after a crash at any point: what tells whose rows are whose is removed last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cortex.store.engine import Engine
from cortex.toolsets.conversations.forgotten import Preview, Rule, Scope, State, Wanted

# A mutation rewrites every file that holds one of the rows: minutes where there are many millions.
_TIMEOUT_S = 3600.0
# Values of one statement travel in its address to a server, which takes a megabyte.
_MAX_VALUES = 10_000
_RULE_COLUMNS = ("rule_id state scope value cutoff_ms counts files principal at").split()

# In the order in which their rows go; `events` tells which rows of the others are meant.
TABLES = (
    "search_postings search_documents event_links tool_io search_hit_log search_query_log"
    " ingest_errors ingest_streams raw_events events"
).split()

_LISTED = "(SELECT session_id FROM forgotten_sessions WHERE rule_id = {rule:String})"
_MEANT: Mapping[Scope, str] = {
    "session": "(SELECT arrayJoin({sessions:Array(String)}) AS session_id)",
    "project": "(SELECT session_id FROM events"
    " WHERE project = {folder:String} OR startsWith(project, {below:String}))",
    # A record without a time is as old as the newest of its session.
    "before": "(SELECT session_id FROM raw_events GROUP BY session_id"
    " HAVING max(toUnixTimestamp64Milli(record_ts)) < {cutoff:Int64})",
}


class ForgetQueries:
    """What forgetting asks of the store, and does to it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def rules(self) -> list[Rule]:
        """Return every rule as it stands now, oldest first."""
        found = await self._engine.query(
            "SELECT rule_id, max(state) AS newest, argMax(scope, state) AS what,"
            " argMax(value, state) AS which, argMax(cutoff_ms, state) AS until_ms,"
            " argMax(counts, state) AS went, argMax(files, state) AS read_from,"
            " argMax(principal, state) AS who, argMax(at, state) AS moment"
            " FROM forgotten GROUP BY rule_id ORDER BY moment, rule_id"
        )
        return [
            Rule(
                rule_id=row["rule_id"],
                wanted=Wanted(row["what"], row["which"], int(row["until_ms"])),
                principal=row["who"],
                at=row["moment"],
                state=State(row["newest"]),
                counts=dict(row["went"]),
                files=tuple((str(source), str(file)) for source, file in row["read_from"]),
            )
            for row in found
        ]

    async def sessions_of(self, rule_id: str) -> list[str]:
        """Return the sessions that a rule lists."""
        found = await self._engine.query(
            "SELECT session_id FROM forgotten_sessions WHERE rule_id = {rule:String}",
            {"rule": rule_id},
        )
        return [str(row["session_id"]) for row in found]

    async def preview(self, wanted: Wanted) -> Preview:
        """Count what a rule would take away."""
        meant, values = await self._meant(wanted)
        of_events = _condition(wanted.scope, "event_ts", meant)
        found = await self._engine.query(
            "SELECT uniqExact(session_id) AS sessions, min(event_ts) AS first,"  # noqa: S608
            f" max(event_ts) AS last FROM events WHERE {of_events}",
            values,
        )
        counts = {table: await self._count(table, wanted.scope, meant, values) for table in TABLES}
        row = found[0]
        has_events = bool(row["sessions"])
        return Preview(
            int(row["sessions"]),
            row["first"] if has_events else None,
            row["last"] if has_events else None,
            counts,
        )

    async def list_sessions(self, rule_id: str, wanted: Wanted) -> None:
        """Keep the sessions that a rule means; said before the rule itself."""
        meant, values = await self._meant(wanted)
        await self._engine.command(
            "INSERT INTO forgotten_sessions (rule_id, session_id)"  # noqa: S608
            f" SELECT DISTINCT {{rule:String}}, session_id FROM {meant}",
            _bound(meant, values) | {"rule": rule_id},
        )

    async def files_of(self, wanted: Wanted) -> tuple[tuple[str, str], ...]:
        """Return the files from which the records of a rule were read."""
        meant, values = await self._meant(wanted)
        where = _condition(wanted.scope, "record_ts", meant)
        found = await self._engine.query(
            f"SELECT DISTINCT source_name, source_file FROM raw_events WHERE {where}",  # noqa: S608
            values,
        )
        return tuple((str(row["source_name"]), str(row["source_file"])) for row in found)

    async def write_rule(self, rule: Rule) -> None:
        """Say how a rule stands."""
        wanted = rule.wanted
        row = (
            rule.rule_id,
            int(rule.state),
            wanted.scope,
            wanted.value,
            wanted.cutoff_ms,
            dict(rule.counts),
            list(rule.files),
            rule.principal,
            rule.at,
        )
        await self._engine.insert("forgotten", _RULE_COLUMNS, [row])

    async def remove(self, rule: Rule) -> None:
        """Take the rows of a rule out of every table."""
        scope, values = rule.wanted.scope, _values(rule.wanted) | {"rule": rule.rule_id}
        for table in TABLES:
            if table == "ingest_errors":
                for ids in _pieces(await self._error_ids(scope, _LISTED, values), _MAX_VALUES):
                    await self._mutate(table, "error_id IN {ids:Array(UInt64)}", {"ids": ids})
            else:
                await self._mutate(table, _rows_of(table, scope, _LISTED), values)

    async def forget_checkpoints(self, files: Sequence[tuple[str, str]]) -> None:
        """Have files read again from their beginning."""
        for some in _pieces(files, 1000):
            where = "(source_name, source_file) IN {files:Array(Tuple(String, String))}"
            await self._mutate("ingest_checkpoints", where, {"files": some})

    async def old_files(self) -> set[tuple[str, str]]:
        """Return the parts of tables that nobody reads any more, but that are still on the disk."""
        found = await self._engine.query(
            "SELECT table, name FROM system.parts WHERE database = currentDatabase()"
            " AND NOT active AND table IN {tables:Array(String)}",
            {"tables": TABLES},
        )
        return {(str(row["table"]), str(row["name"])) for row in found}

    async def hurry_cleaning(self) -> None:
        """Let go of old parts at once; as a rule they are kept for eight minutes."""
        for table in TABLES:
            await self._engine.command(f"ALTER TABLE {table} MODIFY SETTING old_parts_lifetime = 0")

    async def calm_cleaning(self) -> None:
        """Keep old parts as long as usual again: what is new is on the disk by then."""
        for table in TABLES:
            await self._engine.command(f"ALTER TABLE {table} RESET SETTING old_parts_lifetime")

    async def _meant(self, wanted: Wanted) -> tuple[str, dict[str, Any]]:
        values = _values(wanted)
        if wanted.scope == "session":
            values["sessions"] = await self._with_children(wanted.value)
        elif wanted.scope == "project":
            values |= {"folder": wanted.value, "below": wanted.value.rstrip("/") + "/"}
        return _MEANT[wanted.scope], values

    async def _with_children(self, session_id: str) -> list[str]:
        """Return a session and those that its subagents had."""
        known = {session_id}
        fresh = [session_id]
        while fresh:
            found = await self._engine.query(
                "SELECT DISTINCT session_id FROM event_links WHERE link_type = 'subagent_parent'"
                " AND linked_external_id IN {parents:Array(String)}",
                {"parents": fresh},
            )
            fresh = [str(row["session_id"]) for row in found if row["session_id"] not in known]
            known.update(fresh)
        return sorted(known)

    async def _count(self, table: str, scope: Scope, meant: str, values: Mapping[str, Any]) -> int:
        if table == "ingest_errors":
            return len(await self._error_ids(scope, meant, values))
        where = _rows_of(table, scope, meant)
        found = await self._engine.query(
            f"SELECT count() AS n FROM {table} WHERE {where}",  # noqa: S608  # words of this module
            _bound(where, values),
            timeout_s=_TIMEOUT_S,
        )
        return int(found[0]["n"])

    async def _error_ids(self, scope: Scope, meant: str, values: Mapping[str, Any]) -> list[int]:
        """Return the faults whose line stands among the records of a rule.

        A line that could not be read is of the session of the one before it, or after it.
        """
        where = _condition(scope, "near.record_ts", meant, "near.session_id")
        before = await self._near_errors(">=", where, values)
        after = await self._near_errors("<", where, values)
        return [error_id for error_id, is_meant in (after | before).items() if is_meant]

    async def _near_errors(
        self, side: str, where: str, values: Mapping[str, Any]
    ) -> dict[int, bool]:
        found = await self._engine.query(
            f"SELECT error.error_id AS id, {where} AS is_meant FROM ingest_errors AS error"  # noqa: S608
            " ASOF JOIN (SELECT source_file, source_generation, source_line_no, session_id,"
            " record_ts FROM raw_events WHERE source_file IN"
            " (SELECT source_file FROM ingest_errors)) AS near"
            " ON error.source_file = near.source_file"
            " AND error.source_generation = near.source_generation"
            f" AND error.source_line_no {side} near.source_line_no",
            _bound(where, values),
            timeout_s=_TIMEOUT_S,
        )
        return {int(row["id"]): bool(row["is_meant"]) for row in found}

    async def _mutate(self, table: str, where: str, values: Mapping[str, Any]) -> None:
        """Rewrite a table without some rows, and without those that were only hidden before."""
        bound = _bound(where, values)
        found = await self._engine.query(
            f"SELECT 1 FROM {table} WHERE {where} LIMIT 1",  # noqa: S608  # words of this module
            bound,
            timeout_s=_TIMEOUT_S,
        )
        if found:
            await self._engine.command(
                f"ALTER TABLE {table} DELETE WHERE {where} SETTINGS mutations_sync = 2",
                bound,
                timeout_s=_TIMEOUT_S,
            )
        hidden = await self._engine.query(
            "SELECT 1 FROM system.parts WHERE database = currentDatabase() AND active"
            " AND has_lightweight_delete AND table = {table:String} LIMIT 1",
            {"table": table},
        )
        if hidden:
            await self._engine.command(
                f"ALTER TABLE {table} APPLY DELETED MASK SETTINGS mutations_sync = 2",
                timeout_s=_TIMEOUT_S,
            )


def _values(wanted: Wanted) -> dict[str, Any]:
    return {"cutoff": wanted.cutoff_ms}


def _condition(scope: Scope, at: str, meant: str, session_id: str = "session_id") -> str:
    """Return which records of a table with sessions and moments are meant."""
    at_ms = f"toUnixTimestamp64Milli({at})"
    listed = f"{session_id} IN {meant}"
    if scope == "before":
        return f"({at_ms} < {{cutoff:Int64}} AND ({at_ms} > 0 OR {listed}))"
    return f"({at_ms} < {{cutoff:Int64}} AND {listed})"


def _rows_of(table: str, scope: Scope, meant: str) -> str:
    """Return which rows of a table are meant."""
    own = {
        "events": _condition(scope, "event_ts", meant),
        "raw_events": _condition(scope, "record_ts", meant),
        "search_query_log": _condition(scope, "ts", meant, "session_hint"),
        # A stream of which something is left goes on where it was.
        "ingest_streams": "0" if scope == "before" else f"session_id IN {meant}",
    }
    if table in own:
        return own[table]
    name = "doc_id" if table in ("search_postings", "search_documents") else "event_uid"
    of_events = f"{name} IN (SELECT {name} FROM events WHERE {own['events']})"  # noqa: S608
    if table == "search_hit_log" and scope == "before":
        return f"({of_events} OR {_condition(scope, 'ts', meant)})"
    return of_events


def _bound(where: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if f"{{{name}:" in where}


def _pieces(values: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(values)
    while piece := list(islice(rest, size)):
        yield piece
