"""Leaves out of a batch what people had forgotten, wherever it is read again."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import orjson

from cortex.toolsets.conversations.forget_queries import ForgetQueries
from cortex.toolsets.conversations.forgotten import Rule, State, is_below
from cortex.toolsets.conversations.ingest.batch import Batch
from cortex.toolsets.conversations.ingest.prepare import EVENT_COLUMNS, RAW_COLUMNS, Prepared
from cortex.toolsets.conversations.ingest.values import Fault

# Of a prepared row the numbers are still missing.
_RAW = {name: place for place, name in enumerate(RAW_COLUMNS[2:])}
_PROJECT = EVENT_COLUMNS[3:].index("project")

File = tuple[str, int]  # name, generation


class Forgotten:
    """Knows which records are not wanted any more."""

    def __init__(
        self, rules: Sequence[Rule] = (), sessions: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._sessions: dict[str, int] = {}
        self._untimed: set[str] = set()
        self._projects: list[tuple[str, int]] = []
        self._before_ms = 0
        for rule in rules:
            listed = (sessions or {}).get(rule.rule_id, ())
            cutoff_ms = rule.wanted.cutoff_ms
            if rule.wanted.scope == "before":
                self._before_ms = max(self._before_ms, cutoff_ms)
                self._untimed.update(listed)
                continue
            for session_id in listed:
                self._sessions[session_id] = max(cutoff_ms, self._sessions.get(session_id, 0))
            if rule.wanted.scope == "project":
                self._projects.append((rule.wanted.value, cutoff_ms))
        self._is_empty = not rules

    @classmethod
    async def load(cls, queries: ForgetQueries) -> "Forgotten":
        """Read the rules that are in force."""
        rules = [rule for rule in await queries.rules() if rule.state != State.UNDONE]
        return cls(rules, {r.rule_id: await queries.sessions_of(r.rule_id) for r in rules})

    def covers(self, session_id: str, at_ms: int, project: str) -> bool:
        """Tell whether a record is not wanted any more."""
        return (
            at_ms < self._sessions.get(session_id, 0)
            or 0 < at_ms < self._before_ms
            or (not at_ms and session_id in self._untimed)
            or any(
                at_ms < cutoff_ms and is_below(project, folder)
                for folder, cutoff_ms in self._projects
            )
        )

    def left_of(self, batch: Batch) -> tuple[list[Prepared], list[Fault]]:
        """Return the records and faults of a batch that may be written."""
        if self._is_empty:
            return batch.records, batch.faults
        gone = {id(record) for record in batch.records if self._covers(record)}
        if self._projects:
            # What says nothing, and so not where, goes with what its session says around it.
            sessions = {record.session_id for record in batch.records if id(record) in gone}
            gone |= {id(r) for r in batch.records if not r.events and r.session_id in sessions}
        records = [record for record in batch.records if id(record) not in gone]
        lines: dict[File, list[tuple[int, bool]]] = {}
        for record in batch.records if batch.faults else ():
            file, line_no = _place_of(record)
            lines.setdefault(file, []).append((line_no, id(record) in gone))
        faults = [fault for fault in batch.faults if not self._is_of_gone(fault, lines, batch)]
        return records, faults

    def _covers(self, record: Prepared) -> bool:
        at_ms = int(record.raw[_RAW["record_ts"]])
        projects = {str(event[_PROJECT]) for _, event, _, _ in record.events} or {""}
        return any(self.covers(record.session_id, at_ms, project) for project in projects)

    def _is_of_gone(
        self, fault: Fault, lines: Mapping[File, Sequence[tuple[int, bool]]], batch: Batch
    ) -> bool:
        """Tell whether the line before a fault, or after it, is one that is left out."""
        place = fault.place
        around = lines.get((place.source_file, place.generation))
        if around:
            # In the order of their lines, as they were read.
            following = bisect_right(around, place.line_no, key=lambda each: each[0])
            return around[max(0, following - 1)][1]
        point = batch.checkpoints.get((place.source_name, place.source_file))
        carry = orjson.loads(point.carry) if point is not None and point.carry else {}
        session_id = str(carry.get("session_id", "")) if isinstance(carry, dict) else ""
        return session_id in self._sessions


def _place_of(record: Prepared) -> tuple[File, int]:
    raw = record.raw
    file = str(raw[_RAW["source_file"]]), int(raw[_RAW["source_generation"]])
    return file, int(raw[_RAW["source_line_no"]])
