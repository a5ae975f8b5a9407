"""SQL of the list of sessions: which there are, and what each of some was about.

Counted when asked, so that it is right after any deletion. The first question reads a few narrow
columns of the records, which lie by session; the second only ranges of the key, those of the
sessions that are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cortex.store.engine import Engine
from cortex.toolsets.conversations.ingest.values import POSITION_BITS

# Values of one statement travel in its address to a server, which takes a megabyte.
_MAX_STREAMS = 10_000
_TITLE_CHARS = 200
_STREAM = f"bitShiftRight(doc_id, {POSITION_BITS})"
_OF_FOLDER = (
    f"(SELECT {_STREAM} FROM search_documents"  # noqa: S608  # words of this module
    " WHERE project = {folder:String} OR startsWith(project, {below:String}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilters:
    """Which sessions are meant: those with a record of this kind; an empty one says nothing."""

    harness: str = ""
    project: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def condition(self) -> tuple[str, dict[str, Any]]:
        """Return the words of a condition on records, and their values."""
        folder = self.project.rstrip("/")
        words = ["1"]
        values: dict[str, Any] = {}
        for name, value, test in (
            ("harness", self.harness, "harness = {harness:String}"),
            ("folder", folder, f"{_STREAM} IN {_OF_FOLDER}"),
            ("since", self.since, "record_ts >= {since:DateTime64(3, 'UTC')}"),
            ("until", self.until, "record_ts < {until:DateTime64(3, 'UTC')}"),
        ):
            if value:
                words.append(test)
                values[name] = value
        if folder:
            values["below"] = folder + "/"
        return " AND ".join(words), values


class SessionQueries:
    """What the list of sessions asks of the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def sessions(self, filters: SessionFilters, limit: int) -> list[dict[str, Any]]:
        """Return the sessions that are meant, newest first, each with its streams."""
        where, values = filters.condition()
        return await self._engine.query(
            f"SELECT session_id AS session, groupUniqArray({_STREAM}) AS streams,"  # noqa: S608
            " max(record_ts) AS newest, count() OVER () AS total FROM raw_events"
            f" GROUP BY session_id HAVING sum(event_count) > 0 AND countIf({where}) > 0"
            " ORDER BY newest DESC, session DESC LIMIT {limit:UInt32}",
            values | {"limit": limit},
        )

    async def summaries(self, streams: Sequence[int]) -> list[dict[str, Any]]:
        """Return what the sessions of these streams were; a session comes once for each piece."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(streams), _MAX_STREAMS):
            some = streams[start : start + _MAX_STREAMS]
            found += await self._engine.query(
                "SELECT session_id, any(harness) AS agent, count() AS events,"
                " sum(is_turn) AS turns, minIf(event_ts, toUnixTimestamp64Milli(event_ts) > 0)"
                " AS first, max(event_ts) AS last,"
                " argMinIf(project, doc_id, project != '') AS folder,"
                " argMaxIf(title, (event_ts, doc_id), title != '') AS named,"
                " argMinIf(doc_id, (event_ts, doc_id), is_turn) AS prompt,"
                " sum(input_tokens) AS input, sum(output_tokens) AS output,"
                " sum(cache_read_tokens) AS cache_read, sum(cache_write_tokens) AS cache_write,"
                " sum(reasoning_tokens) AS reasoning"
                # Of a division by a constant the engine knows that it follows the key.
                " FROM events WHERE intDiv(doc_id, {events_each:UInt32}) IN {streams:Array(UInt64)}"
                " GROUP BY session_id",
                {"streams": list(some), "events_each": 1 << POSITION_BITS},
            )
        return found

    async def beginnings(self, doc_ids: Sequence[int]) -> dict[int, str]:
        """Return how these events begin."""
        if not doc_ids:
            return {}
        found = await self._engine.query(
            "SELECT doc_id, substringUTF8(text_content, 1, {chars:UInt16}) AS said FROM events"
            " WHERE doc_id IN {docs:Array(UInt64)}",
            {"docs": list(doc_ids), "chars": _TITLE_CHARS},
        )
        return {int(row["doc_id"]): str(row["said"]) for row in found}
