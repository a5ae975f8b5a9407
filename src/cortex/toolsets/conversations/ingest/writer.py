"""Batches into the store: each whole, or gone after the next start."""

import logging

import anyio.to_thread

from cortex.toolsets.conversations.ingest.batch import Batch, Fault, stream_of
from cortex.toolsets.conversations.ingest.queries import DONE, OPEN, VOID, IngestQueries
from cortex.toolsets.conversations.ingest.rows import Rows, StreamCounts

log = logging.getLogger(__name__)


class BatchWriter:
    """The one writer of conversations. A batch counts from the moment it is said to be done."""

    def __init__(self, queries: IngestQueries) -> None:
        self._queries = queries
        self._batch = 0
        self._counts: dict[int, StreamCounts] = {}
        self._owners: dict[str, str] = {}  # session -> the file that is known to hold it

    async def recover(self) -> int:
        """Remove what a crash left half-written; returns how many batches that were."""
        cut_off = await self._queries.open_batches()
        for batch in cut_off:
            await self._queries.delete_batch(batch)
            await self._queries.set_batch(batch, VOID)
            log.warning("batch %d was cut off by a crash and is read again", batch)
        self._batch = await self._queries.last_batch()
        return len(cut_off)

    async def write(self, batch: Batch) -> int:
        """Write a batch and return how many of its events are new."""
        await self._drop_known(batch)
        await self._load_counts(batch)
        self._batch += 1
        number = self._batch
        made = await anyio.to_thread.run_sync(self._rows, number, batch)
        await self._queries.set_batch(number, OPEN)
        await self._queries.insert_rows(made)
        await self._queries.insert_errors([_error_row(number, fault) for fault in batch.faults])
        await self._queries.insert_checkpoints(number, batch.checkpoints.values())
        await self._queries.set_batch(number, DONE)
        return len(made.events)

    async def _drop_known(self, batch: Batch) -> None:
        """Leave out records that another file, or an earlier reading, brought already."""
        asked = {
            record.reading.session_id
            for record in batch.records
            if self._owners.get(record.reading.session_id) != record.place.source_file
        }
        known = await self._queries.known_keys(asked) if asked else set[tuple[str, str]]()
        kept = []
        for record in batch.records:
            name = (record.reading.session_id, record.reading.key)
            owner = self._owners.setdefault(name[0], record.place.source_file)
            if name in known:
                continue
            if name[0] in asked or owner != record.place.source_file:
                known.add(name)
            kept.append(record)
        batch.records = kept

    async def _load_counts(self, batch: Batch) -> None:
        streams = {stream_of(r.reading.session_id, r.place) for r in batch.records}
        missing = streams - self._counts.keys()
        if missing:
            self._counts |= {stream: StreamCounts() for stream in missing}
            self._counts |= await self._queries.stream_counts(missing)

    def _rows(self, number: int, batch: Batch) -> Rows:
        made = Rows()
        for record in batch.records:
            stream = stream_of(record.reading.session_id, record.place)
            made.add(number, record, stream, self._counts[stream])
        return made


def _error_row(number: int, fault: Fault) -> tuple[object, ...]:
    place = fault.place
    return (
        number,
        place.source_name,
        place.harness,
        place.source_file,
        place.generation,
        place.line_no,
        place.offset,
        fault.kind,
        fault.text[:500],
        fault.fragment[:20_000],
    )
