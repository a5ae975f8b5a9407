"""All SQL of ingest: batches, checkpoints, and what is already known."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from cortex.store.engine import Engine
from cortex.toolsets.conversations.ingest import prepare
from cortex.toolsets.conversations.ingest.known import LINE, Stored
from cortex.toolsets.conversations.ingest.plan import Plan
from cortex.toolsets.conversations.ingest.prepare import Stream
from cortex.toolsets.conversations.ingest.rows import Rows, StreamCounts
from cortex.toolsets.conversations.ingest.together import to_the_end
from cortex.toolsets.conversations.ingest.values import (
    POSITION_BITS,
    POSITION_MASK,
    Checkpoint,
    Fault,
)

T = TypeVar("T")

OPEN, DONE, VOID = 1, 2, 3
_CHECKPOINT_COLUMNS = (
    "source_name source_file batch origin source_inode source_generation last_offset last_line_no"
    " head tail carry"
).split()
_ERROR_COLUMNS = (
    "batch source_name harness source_file source_generation source_line_no source_offset error_id"
    " error_kind error_text raw_fragment"
).split()
# Values of one statement travel in its address to a server, which takes a megabyte.
_MAX_VALUES = 10_000
_MAX_SESSIONS = 1_000


class IngestQueries:
    """What ingest asks of the store, and writes into it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def last_batch(self) -> int:
        """Return the number of the newest batch, 0 before the first."""
        found = await self._engine.query("SELECT max(batch) AS batch FROM ingest_batches")
        return int(found[0]["batch"])

    async def open_batches(self) -> dict[int, Plan]:
        """Return the batches that a crash cut off, with what each was about to do."""
        found = await self._engine.query(
            "SELECT batch, max(plan) AS told FROM ingest_batches"
            " GROUP BY batch HAVING max(state) = {open:UInt8} ORDER BY batch",
            {"open": OPEN},
        )
        return {int(row["batch"]): Plan.from_json(row["told"]) for row in found}

    async def begin(self, batch: int, plan: Plan) -> None:
        """Say that a batch is being written, and what it does."""
        await self._engine.insert(
            "ingest_batches", ["batch", "state", "plan"], [(batch, OPEN, plan.to_json())]
        )

    async def end(self, batch: int, state: int, redactions: Mapping[str, int]) -> None:
        """Say that a batch is done or void."""
        await self._engine.insert(
            "ingest_batches", ["batch", "state", "redactions"], [(batch, state, dict(redactions))]
        )

    async def redactions(self) -> dict[str, int]:
        """Return how many secrets each rule has taken out of what is in the store."""
        found = await self._engine.query(
            "SELECT rule, sum(secrets) AS secrets FROM ingest_batches"
            " ARRAY JOIN mapKeys(redactions) AS rule, mapValues(redactions) AS secrets"
            " GROUP BY rule ORDER BY rule"
        )
        return {str(row["rule"]): int(row["secrets"]) for row in found}

    async def checkpoints(self) -> list[Checkpoint]:
        """Return how far every file is."""
        found = await self._engine.query(
            "SELECT source_name, source_file, argMax(origin, batch) AS first_name,"
            " argMax(source_inode, batch) AS inode,"
            " argMax(source_generation, batch) AS generation,"
            " argMax(last_offset, batch) AS offset, argMax(last_line_no, batch) AS line_no,"
            " argMax(head, batch) AS first, argMax(tail, batch) AS last,"
            " argMax(carry, batch) AS remembered"
            " FROM ingest_checkpoints GROUP BY source_name, source_file"
        )
        return [Checkpoint(*row.values()) for row in found]

    async def known_records(self, session_ids: Iterable[str]) -> dict[str, dict[str, Stored]]:
        """Return the records of these sessions that are in the store."""
        known: dict[str, dict[str, Stored]] = defaultdict(dict)
        for some in _pieces(sorted(session_ids), _MAX_SESSIONS):
            found = await self._engine.query(
                "SELECT session_id, record_key, reading_mark, doc_id, event_count FROM raw_events"
                " WHERE session_id IN {sessions:Array(String)}",
                {"sessions": some},
            )
            known |= {session_id: {} for session_id in some}
            for row in found:
                mark = int(row["reading_mark"])
                stored = Stored(mark, row["doc_id"], row["event_count"]) if mark else LINE
                known[row["session_id"]][row["record_key"]] = stored
        return dict(known)

    async def last_stream(self) -> int:
        """Return the highest number that a stream has, 0 before the first."""
        found = await self._engine.query("SELECT max(stream) AS stream FROM ingest_streams")
        return int(found[0]["stream"])

    async def streams(self, session_ids: Iterable[str]) -> dict[Stream, StreamCounts]:
        """Return the streams of these sessions, each in its newest part, with its counts."""
        newest: dict[Stream, StreamCounts] = {}
        for some in _pieces(sorted(session_ids), _MAX_SESSIONS):
            found = await self._engine.query(
                "SELECT session_id, origin, source_generation, max(part) AS newest,"
                " argMax(stream, part) AS number FROM ingest_streams"
                " WHERE session_id IN {sessions:Array(String)}"
                " GROUP BY session_id, origin, source_generation",
                {"sessions": some},
            )
            for row in found:
                name = (row["session_id"], row["origin"], row["source_generation"])
                newest[name] = StreamCounts(row["number"], row["newest"])
        await self._count(newest.values())
        return newest

    async def _count(self, streams: Iterable[StreamCounts]) -> None:
        """Learn how far these streams have been counted."""
        by_number = {counts.stream: counts for counts in streams}
        for some in _pieces(sorted(by_number), _MAX_SESSIONS):
            values: dict[str, Any] = {"mask": POSITION_MASK, "bits": POSITION_BITS}
            # Ranges of the key, one for each stream: a function of the key would read all of it.
            ranges: list[str] = []
            for place, stream in enumerate(some):
                values[f"s{place}"] = stream << POSITION_BITS
                bound = f"{{s{place}:UInt64}}"
                ranges.append(f"doc_id BETWEEN {bound} AND bitOr({bound}, {{mask:UInt64}})")
            where = " OR ".join(ranges)
            found = await self._engine.query(
                "SELECT bitShiftRight(doc_id, {bits:UInt8}) AS stream,"  # noqa: S608  # names only
                " max(bitAnd(doc_id, {mask:UInt64})) + 1 AS events, max(turn_seq) AS turns"
                f" FROM events WHERE {where} GROUP BY stream",
                values,
            )
            ranked = await self._engine.query(
                "SELECT bitShiftRight(doc_id, {bits:UInt8}) AS stream,"  # noqa: S608  # names only
                f" max(position) AS ranked FROM search_documents WHERE {where} GROUP BY stream",
                values,
            )
            places = {int(row["stream"]): int(row["ranked"]) for row in ranked}
            for row in found:
                counts = by_number[int(row["stream"])]
                counts.events = int(row["events"])
                counts.ranked = places.get(counts.stream, 0)
                counts.turns = int(row["turns"])

    async def positions(self, doc_ids: Iterable[int]) -> dict[int, int]:
        """Return the places of these documents among the ranked ones."""
        places: dict[int, int] = {}
        for some in _pieces(doc_ids, _MAX_VALUES):
            found = await self._engine.query(
                "SELECT doc_id, position FROM search_documents"
                " WHERE doc_id IN {docs:Array(UInt64)} AND position > 0",
                {"docs": some},
            )
            places |= {int(row["doc_id"]): int(row["position"]) for row in found}
        return places

    async def turns_before(self, doc_ids: Iterable[int]) -> dict[int, int]:
        """Return how many prompts came before each of these events."""
        turns: dict[int, int] = {}
        for some in _pieces(doc_ids, _MAX_VALUES):
            found = await self._engine.query(
                "SELECT doc_id, turn_seq - is_turn AS turns FROM events"
                " WHERE doc_id IN {docs:Array(UInt64)}",
                {"docs": some},
            )
            turns |= {int(row["doc_id"]): int(row["turns"]) for row in found}
        return turns

    async def known_faults(self, faults: Sequence[Fault]) -> set[int]:
        """Return which of these faults were told before."""
        known: set[int] = set()
        for some in _pieces([fault.id for fault in faults], _MAX_VALUES):
            found = await self._engine.query(
                "SELECT error_id FROM ingest_errors WHERE error_id IN {ids:Array(UInt64)}",
                {"ids": some},
            )
            known |= {int(row["error_id"]) for row in found}
        return known

    async def count_faults(self) -> int:
        """Return how many records could not be read."""
        found = await self._engine.query("SELECT count() AS faults FROM ingest_errors")
        return int(found[0]["faults"])

    async def insert(self, batch: int, made: Rows, faults: Sequence[Fault]) -> None:
        """Write the rows of a batch, side by side: the engine compresses while Python encodes."""
        await to_the_end(
            partial(
                self._engine.insert, "search_entries", prepare.DOCUMENT_COLUMNS, made.documents
            ),
            partial(self._engine.insert, "ingest_streams", prepare.STREAM_COLUMNS, made.streams),
            partial(self._engine.insert, "events", prepare.EVENT_COLUMNS, made.events),
            partial(self._engine.insert, "raw_events", prepare.RAW_COLUMNS, made.raw),
            partial(self._engine.insert, "event_links", prepare.LINK_COLUMNS, made.links),
            partial(self._engine.insert, "tool_io", prepare.TOOL_COLUMNS, made.tool_io),
            partial(self._insert_faults, batch, faults),
        )

    async def _insert_faults(self, batch: int, faults: Sequence[Fault]) -> None:
        """Write the records that could not be read."""
        await self._engine.insert(
            "ingest_errors",
            _ERROR_COLUMNS,
            [
                (
                    batch,
                    fault.place.source_name,
                    fault.place.harness,
                    fault.place.source_file,
                    fault.place.generation,
                    fault.place.line_no,
                    fault.place.offset,
                    fault.id,
                    fault.kind,
                    fault.text[:500],
                    fault.fragment[:20_000],
                )
                for fault in faults
            ],
        )

    async def insert_checkpoints(self, batch: int, reached: Iterable[Checkpoint]) -> None:
        """Write how far the files of a batch are."""
        await self._engine.insert(
            "ingest_checkpoints",
            _CHECKPOINT_COLUMNS,
            [
                (
                    point.source_name,
                    point.source_file,
                    batch,
                    point.origin,
                    point.inode,
                    point.generation,
                    point.offset,
                    point.line_no,
                    point.head,
                    point.tail,
                    point.carry,
                )
                for point in reached
            ],
        )


def _pieces(values: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(values)
    while piece := list(islice(rest, size)):
        yield piece
