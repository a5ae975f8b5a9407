"""Batches into the store: each whole, or gone after the next start."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio.to_thread

from cortex.toolsets.conversations.forget_queries import ForgetQueries
from cortex.toolsets.conversations.ingest.batch import Batch
from cortex.toolsets.conversations.ingest.forgotten import Forgotten
from cortex.toolsets.conversations.ingest.known import LINE, KnownRecords, Stored
from cortex.toolsets.conversations.ingest.plan import Plan, Removal, runs
from cortex.toolsets.conversations.ingest.prepare import Prepared, Stream
from cortex.toolsets.conversations.ingest.queries import DONE, VOID, IngestQueries
from cortex.toolsets.conversations.ingest.removal import RowRemover
from cortex.toolsets.conversations.ingest.rows import Numbers, Rows, StreamCounts
from cortex.toolsets.conversations.ingest.values import (
    POSITION_BITS,
    POSITION_MASK,
    Fault,
)

log = logging.getLogger(__name__)

# Streams whose counts are kept; more are counted again when they are met again.
_MAX_STREAMS = 20_000


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch brought that was not there before."""

    events: int = 0
    faults: Sequence[Fault] = ()
    redactions: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class _Replaced:
    """What is kept of the records that others take the place of: their places and turns."""

    removals: Mapping[tuple[str, str], Removal]
    positions: Mapping[int, int]
    turns: Mapping[int, int]


class BatchWriter:
    """The one writer of conversations. A batch counts from the moment it is said to be done."""

    def __init__(self, queries: IngestQueries, remover: RowRemover, rules: ForgetQueries) -> None:
        self._queries = queries
        self._remover = remover
        self._rules = rules
        self._forgotten = Forgotten()
        self._known = KnownRecords()
        self._counts: dict[Stream, StreamCounts] = {}
        self._batch = 0
        self._stream = 0

    async def recover(self) -> int:
        """Remove what a crash left half-written; returns how many batches that were."""
        cut_off = await self._queries.open_batches()
        for batch, plan in cut_off.items():
            await self._remover.remove_batch(batch, plan)
            await self._queries.end(batch, VOID, {})
            log.warning("batch %d was cut off and is read again", batch)
        self._batch = await self._queries.last_batch()
        self._stream = await self._queries.last_stream()
        self._forgotten = await Forgotten.load(self._rules)
        self._known.clear()
        self._counts.clear()
        return len(cut_off)

    async def write(self, batch: Batch) -> Written:
        """Write a batch; after an error nothing may be written before `recover`."""
        wanted, faults = self._forgotten.left_of(batch)
        await self._look_up(wanted)
        records, replaced = await self._new(wanted)
        faults = await self._new_faults(faults)
        await self._count(records)
        self._batch += 1
        number = self._batch
        made, plan = await anyio.to_thread.run_sync(self._made, number, records, replaced)
        await self._queries.begin(number, plan)
        if plan.removals:
            await self._remover.remove_records(plan.removals, before=number)
        await self._queries.insert(number, made, faults)
        await self._queries.insert_checkpoints(number, batch.checkpoints.values())
        redactions: Counter[str] = Counter()
        for record in records:
            redactions.update(record.redactions)
        await self._queries.end(number, DONE, redactions)
        self._known.trim()
        return Written(len(made.events), faults, redactions)

    async def _look_up(self, records: Sequence[Prepared]) -> None:
        """Learn which records of these sessions are in the store."""
        missing = self._known.missing(record.session_id for record in records)
        if missing:
            self._known.put(await self._queries.known_records(missing))

    async def _new(self, records: Sequence[Prepared]) -> tuple[list[Prepared], _Replaced]:
        """Leave out what is in the store already; what says something else now is replaced."""
        kept: dict[tuple[str, str], Prepared] = {}
        removals: dict[tuple[str, str], Removal] = {}
        for record in records:
            name = (record.session_id, record.key)
            stored = self._known.of(name[0]).get(name[1])
            if name in kept:
                if record.mark:
                    kept[name] = record
            elif stored is None:
                kept[name] = record
            elif record.mark and stored.mark and stored.mark != record.mark:
                kept[name] = record
                removals[name] = Removal(*name, stored.doc_id, stored.events)
        if not removals:
            return list(kept.values()), _Replaced({}, {}, {})
        doc_ids = [doc_id for removal in removals.values() for doc_id in removal.doc_ids]
        positions = await self._queries.positions(doc_ids)
        turns = await self._queries.turns_before(r.doc_id for r in removals.values())
        return list(kept.values()), _Replaced(removals, positions, turns)

    async def _new_faults(self, faults: Sequence[Fault]) -> list[Fault]:
        if not faults:
            return []
        known = await self._queries.known_faults(faults)
        by_id = {fault.id: fault for fault in reversed(faults) if fault.id not in known}
        return list(reversed(by_id.values()))

    async def _count(self, records: Sequence[Prepared]) -> None:
        """Learn how far the streams of these records have been counted."""
        if len(self._counts) > _MAX_STREAMS:
            self._counts.clear()
        wanted = {record.stream for record in records} - self._counts.keys()
        # Nothing is asked of the streams of sessions that the store does not know at all.
        sessions = {session_id for session_id, _, _ in wanted if self._known.of(session_id)}
        self._counts |= await self._queries.streams(sessions) if sessions else {}

    def _made(
        self, number: int, records: Sequence[Prepared], replaced: _Replaced
    ) -> tuple[Rows, Plan]:
        made = Rows()
        for record in records:
            session_id, key = record.session_id, record.key
            removal = replaced.removals.get((session_id, key))
            counts = self._counts.get(record.stream)
            if counts is None or counts.events + len(record.events) > POSITION_MASK:
                counts = self._next_stream(record.stream, counts)
                made.streams.append((number, *record.stream, counts.part, counts.stream))
            numbers = self._numbers(record, counts, removal, replaced)
            made.add(number, record, numbers)
            events = len(record.events)
            stored = Stored(record.mark, numbers.doc_id, events) if record.mark else LINE
            self._known.of(session_id)[key] = stored
        docs = runs(made.doc_ids)
        return made, Plan(docs, tuple(replaced.removals.values()))

    def _next_stream(self, name: Stream, full: StreamCounts | None) -> StreamCounts:
        """Begin a stream, or the next part of one that is full."""
        self._stream += 1
        counts = StreamCounts(self._stream)
        if full is not None:
            counts.part, counts.turns = full.part + 1, full.turns
        self._counts[name] = counts
        return counts

    def _numbers(
        self,
        record: Prepared,
        counts: StreamCounts,
        removal: Removal | None,
        replaced: _Replaced,
    ) -> Numbers:
        """Give a record its numbers: the old ones where they suffice, so it keeps its place."""
        events = len(record.events)
        following_id = (counts.stream << POSITION_BITS) | counts.events
        if removal is None:
            counts.events += events
            return Numbers(following_id, counts)
        turns = replaced.turns.get(removal.doc_id)
        is_last = removal.events > 0 and removal.doc_ids.stop == following_id
        if events <= removal.events or is_last:
            counts.events += max(0, events - removal.events)
            return Numbers(removal.doc_id, counts, turns, replaced.positions)
        counts.events += events
        return Numbers(following_id, counts, turns)
