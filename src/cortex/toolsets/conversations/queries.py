"""All SQL of search and open: new documents, the postings of a few terms, events, a window."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from cortex.store.engine import Engine
from cortex.toolsets.conversations.documents import ROW
from cortex.toolsets.conversations.ingest.values import POSITION_MASK

_POSTING = np.dtype([("key", "<u8"), ("doc_id", "<u8"), ("tf", "<u2")])
_POSTINGS = "SELECT key, doc_id, tf FROM search_postings WHERE key IN {keys:Array(UInt64)}"
_BROAD_GRANULES = 8
# In the order in which `events.card` has them.
_CARD = (
    "event_uid session_id at_ms turn_seq source_name harness inference_provider source_file"
    " source_generation source_line_no event_kind payload_type actor_kind item_id op_status"
    " tool_name tool_call_id tool_phase project title input_tokens output_tokens"
    " cache_read_tokens cache_write_tokens reasoning_tokens"
).split()


@dataclass(frozen=True, slots=True)
class Title:
    """What a session was called at some moment."""

    session_id: str
    text: str
    at: tuple[datetime, int]


class ConversationQueries:
    """What search and open ask of the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def count_documents(self) -> int:
        """Return how many documents there are."""
        found = await self._engine.query("SELECT count() AS documents FROM search_documents")
        return int(found[0]["documents"])

    async def documents(self, after_batch: int) -> NDArray[Any]:
        """Return the documents of later batches."""
        return await self._engine.records(
            "SELECT doc_id, batch, session, class, doc_len, toUnixTimestamp64Milli(event_ts),"
            " position, said, cityHash64(harness), cityHash64(event_kind), cityHash64(project)"
            " FROM search_documents WHERE batch > {after:UInt64}",
            ROW,
            {"after": after_batch},
        )

    async def names(self, after_batch: int) -> dict[int, str]:
        """Return what the hashes in documents of later batches stand for."""
        found = await self._engine.query(
            " UNION ALL ".join(
                f"SELECT DISTINCT toString({column}) AS name, cityHash64({column}) AS hash"  # noqa: S608
                " FROM search_documents WHERE batch > {after:UInt64}"
                for column in ("harness", "event_kind", "project")
            ),
            {"after": after_batch},
        )
        return {int(row["hash"]): str(row["name"]) for row in found}

    async def titles(self, after_batch: int) -> list[Title]:
        """Return the newest title of each session that later batches gave one."""
        found = await self._engine.query(
            "SELECT session_id, argMax(title, (event_ts, doc_id)) AS newest,"
            " max((event_ts, doc_id)) AS at FROM events"
            " WHERE title != '' AND batch > {after:UInt64} GROUP BY session_id",
            {"after": after_batch},
        )
        return [Title(row["session_id"], row["newest"], row["at"]) for row in found]

    async def broad_keys(self) -> dict[int, int]:
        """Return terms with many postings, and about how many: what the primary index tells."""
        found = await self._engine.query(
            "SELECT key, sum(rows_in_granule) AS postings"
            " FROM mergeTreeIndex(currentDatabase(), {table:String})"
            " WHERE bitTest(key, 0) GROUP BY key HAVING count() >= {least:UInt8}",
            {"table": self._engine.local("search_postings"), "least": _BROAD_GRANULES},
        )
        return {int(row["key"]): int(row["postings"]) for row in found}

    async def postings(self, keys: Sequence[int], counted: Sequence[int] = ()) -> NDArray[Any]:
        """Return postings of some terms; of others one row each: tf 0, and a count for doc_id."""
        statement = _POSTINGS
        values: dict[str, Any] = {"keys": list(keys)}
        if counted:
            statement += (
                " UNION ALL SELECT key, count(), toUInt16(0) FROM search_postings"
                " WHERE key IN {counted:Array(UInt64)} GROUP BY key"
            )
            values["counted"] = list(counted)
        return await self._engine.records(statement, _POSTING, values)

    async def postings_in(self, keys: Sequence[int], doc_ids: Sequence[int]) -> NDArray[Any]:
        """Return the postings of these terms in these documents."""
        if not keys or not doc_ids:
            return np.empty(0, _POSTING)
        return await self._engine.records(
            f"{_POSTINGS} AND doc_id IN {{docs:Array(UInt64)}}",
            _POSTING,
            {"keys": list(keys), "docs": list(doc_ids)},
        )

    async def events(self, doc_ids: Sequence[int], text_chars: int) -> list[dict[str, Any]]:
        """Return the events of these numbers, each with the beginning of its text."""
        if not doc_ids:
            return []
        found = await self._engine.query(
            "SELECT doc_id, card, if(length(text_content) <= {chars:UInt32}, text_content,"
            " substringUTF8(text_content, 1, {chars:UInt32})) AS text_content"
            " FROM events WHERE doc_id IN {docs:Array(UInt64)}",
            {"docs": list(doc_ids), "chars": text_chars},
        )
        return [_event(row) for row in found]

    async def window(self, event_uid: str, before: int, after: int) -> list[dict[str, Any]]:
        """Return an event and its neighbours in the same stream, in order; none, no such event."""
        found = await self._engine.query(
            "WITH (SELECT doc_id FROM events WHERE event_uid = {uid:String} LIMIT 1) AS target,"
            " bitAnd(target, {mask:UInt64}) AS place"
            " SELECT doc_id, card, text_content FROM events"
            " WHERE doc_id BETWEEN target - least(place, {before:UInt64})"
            " AND least(target + {after:UInt64}, bitOr(target, {mask:UInt64}))"
            " ORDER BY doc_id",
            {"uid": event_uid, "before": before, "after": after, "mask": POSITION_MASK},
        )
        return [_event(row) for row in found]

    async def records(self, session_id: str, first: int, last: int) -> list[tuple[range, str]]:
        """Return the records of these events as the agent wrote them, each with its events."""
        found = await self._engine.query(
            "SELECT doc_id, event_count, raw_json FROM raw_events"
            " WHERE session_id = {session:String}"
            " AND doc_id <= {last:UInt64} AND doc_id + event_count > {first:UInt64}",
            {"session": session_id, "first": first, "last": last},
        )
        return [
            (range(row["doc_id"], row["doc_id"] + row["event_count"]), str(row["raw_json"]))
            for row in found
        ]


def _event(row: dict[str, Any]) -> dict[str, Any]:
    """Return an event by the names of its fields."""
    event = dict(zip(_CARD, orjson.loads(row.pop("card")), strict=True)) | row
    event["event_ts"] = datetime.fromtimestamp(int(event.pop("at_ms")) / 1000, UTC)
    return event


def key_of(term: str, *, is_ranked: bool) -> int:
    """Return what the postings of a term are found by; see `search_postings`."""
    return xxhash.xxh64_intdigest(term.encode()) & ~1 | is_ranked


def order_of(doc_id: int) -> int:
    """Return the place of an event in its stream, counted from 1."""
    return (doc_id & POSITION_MASK) + 1
