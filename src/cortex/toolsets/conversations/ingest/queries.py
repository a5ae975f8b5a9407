"""All SQL of ingest: batches, checkpoints, and what is already known."""

from collections.abc import Iterable, Sequence
from typing import Any

from cortex.store.engine import Engine
from cortex.toolsets.conversations.ingest import rows
from cortex.toolsets.conversations.ingest.batch import POSITION_BITS, POSITION_MASK, Checkpoint
from cortex.toolsets.conversations.ingest.rows import Rows, StreamCounts

OPEN, DONE, VOID = 1, 2, 3
_BY_BATCH = ("events", "raw_events", "event_links", "tool_io", "ingest_errors", "search_documents")
_CHECKPOINT_COLUMNS = (
    "source_name source_file batch source_inode source_generation last_offset last_line_no head"
    " carry"
).split()
_ERROR_COLUMNS = (
    "batch source_name harness source_file source_generation source_line_no source_offset"
    " error_kind error_text raw_fragment"
).split()


class IngestQueries:
    """What ingest asks of the store, and writes into it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def last_batch(self) -> int:
        """Return the number of the newest batch, 0 before the first."""
        found = await self._engine.query("SELECT max(batch) AS batch FROM ingest_batches")
        return int(found[0]["batch"])

    async def set_batch(self, batch: int, state: int) -> None:
        """Say that a batch is open, done or void."""
        await self._engine.insert("ingest_batches", ["batch", "state"], [(batch, state)])

    async def open_batches(self) -> list[int]:
        """Return the batches that a crash cut off."""
        found = await self._engine.query(
            "SELECT batch FROM ingest_batches GROUP BY batch HAVING max(state) = {open:UInt8}",
            {"open": OPEN},
        )
        return [int(row["batch"]) for row in found]

    async def delete_batch(self, batch: int) -> None:
        """Remove every row of a batch, postings first: they are found by their documents."""
        named = {"batch": batch}
        await self._engine.command(
            "DELETE FROM search_postings WHERE doc_id IN"
            " (SELECT doc_id FROM search_documents WHERE batch = {batch:UInt64})",
            named,
        )
        for table in (*_BY_BATCH, "ingest_checkpoints"):
            await self._engine.command(
                f"DELETE FROM {table} WHERE batch = {{batch:UInt64}}",  # noqa: S608  # constants
                named,
            )

    async def checkpoints(self) -> list[Checkpoint]:
        """Return how far every file is."""
        found = await self._engine.query(
            "SELECT source_name, source_file, argMax(source_inode, batch) AS inode,"
            " argMax(source_generation, batch) AS generation,"
            " argMax(last_offset, batch) AS offset, argMax(last_line_no, batch) AS line_no,"
            " argMax(head, batch) AS head, argMax(carry, batch) AS carry"
            " FROM ingest_checkpoints GROUP BY source_name, source_file"
        )
        return [Checkpoint(**row) for row in found]

    async def known_keys(self, session_ids: Iterable[str]) -> set[tuple[str, str]]:
        """Return the records of these sessions that are in the store."""
        found = await self._engine.query(
            "SELECT session_id, record_key FROM raw_events"
            " WHERE session_id IN {sessions:Array(String)}",
            {"sessions": sorted(session_ids)},
        )
        return {(row["session_id"], row["record_key"]) for row in found}

    async def stream_counts(self, streams: Iterable[int]) -> dict[int, StreamCounts]:
        """Return how far these streams have been counted."""
        named = {"streams": sorted(streams), "bits": POSITION_BITS, "mask": POSITION_MASK}
        found = await self._engine.query(
            "SELECT bitShiftRight(doc_id, {bits:UInt8}) AS stream,"
            " max(bitAnd(doc_id, {mask:UInt64})) + 1 AS events, max(turn_seq) AS turns"
            " FROM events WHERE bitShiftRight(doc_id, {bits:UInt8}) IN {streams:Array(UInt64)}"
            " GROUP BY stream",
            named,
        )
        ranked = await self._engine.query(
            "SELECT bitShiftRight(doc_id, {bits:UInt8}) AS stream, count() AS ranked"
            " FROM search_documents WHERE class <= 5"
            " AND bitShiftRight(doc_id, {bits:UInt8}) IN {streams:Array(UInt64)} GROUP BY stream",
            named,
        )
        by_stream = {int(row["stream"]): int(row["ranked"]) for row in ranked}
        return {
            int(row["stream"]): StreamCounts(
                int(row["events"]), by_stream.get(int(row["stream"]), 0), int(row["turns"])
            )
            for row in found
        }

    async def insert_rows(self, made: Rows) -> None:
        """Write the rows of a batch, documents before the postings that are found by them."""
        insert = self._engine.insert
        await insert("search_documents", rows.DOCUMENT_COLUMNS, made.documents)
        await insert("events", rows.EVENT_COLUMNS, made.events)
        await insert("raw_events", rows.RAW_COLUMNS, made.raw)
        await insert("event_links", rows.LINK_COLUMNS, made.links)
        await insert("tool_io", rows.TOOL_COLUMNS, made.tool_io)
        await insert("search_postings", rows.POSTING_COLUMNS, made.postings)

    async def insert_errors(self, errors: Sequence[tuple[Any, ...]]) -> None:
        """Write the records that could not be read."""
        await self._engine.insert("ingest_errors", _ERROR_COLUMNS, errors)

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
                    point.inode,
                    point.generation,
                    point.offset,
                    point.line_no,
                    point.head,
                    point.carry,
                )
                for point in reached
            ],
        )
