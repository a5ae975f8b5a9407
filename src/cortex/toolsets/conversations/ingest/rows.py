"""Rows for the tables: what was prepared, with the batch and the numbers of its events."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cortex.toolsets.conversations.ingest.prepare import Prepared, Row


@dataclass(slots=True)
class StreamCounts:
    """How far a stream has been counted, and which of its parts that is."""

    stream: int
    part: int = 0
    events: int = 0
    ranked: int = 0
    turns: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """Which numbers a record takes: new ones, or those of what it takes the place of."""

    doc_id: int
    counts: StreamCounts
    turns: int | None = None  # how many came before what it takes the place of
    positions: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class Rows:
    """Rows by table."""

    raw: list[Row] = field(default_factory=list[Row])
    events: list[Row] = field(default_factory=list[Row])
    links: list[Row] = field(default_factory=list[Row])
    tool_io: list[Row] = field(default_factory=list[Row])
    documents: list[Row] = field(default_factory=list[Row])
    streams: list[Row] = field(default_factory=list[Row])
    doc_ids: list[int] = field(default_factory=list[int])

    def add(self, batch: int, record: Prepared, numbers: Numbers) -> None:
        """Add everything one record says."""
        self.raw.append((batch, numbers.doc_id, *record.raw))
        counts = numbers.counts
        turns = counts.turns if numbers.turns is None else numbers.turns
        for doc_id, (is_turn, event, is_ranked, document) in enumerate(
            record.events, numbers.doc_id
        ):
            turns += is_turn
            self.doc_ids.append(doc_id)
            self.events.append((batch, doc_id, turns, *event))
            if document is not None:
                position = numbers.positions.get(doc_id, 0) if is_ranked else 0
                if is_ranked and not position:
                    position = counts.ranked = counts.ranked + 1
                self.documents.append((batch, doc_id, position, *document))
        counts.turns = max(counts.turns, turns)
        self.links += [(batch, *link) for link in record.links]
        self.tool_io += [(batch, *tool) for tool in record.tools]
