"""Rows for the tables: a record becomes events, documents and postings with their numbers."""

from dataclasses import dataclass, field
from typing import Any

from cortex.toolsets.conversations.ingest.batch import (
    POSITION_BITS,
    Record,
    event_uid,
    moment,
    session_hash,
)
from cortex.toolsets.conversations.models import Event, TokenUsage
from cortex.toolsets.conversations.ranking import RANKED, class_of
from cortex.toolsets.conversations.terms import term_counts

# A tool may print megabytes; what is looked for stands at the beginning.
_MAX_INDEXED_CHARS = 65_536
_NO_USAGE = TokenUsage()

RAW_COLUMNS = (
    "batch session_id record_key source_name harness source_file source_generation"
    " source_line_no source_offset top_type record_ts raw_json"
).split()
EVENT_COLUMNS = (
    "doc_id batch event_uid session_id event_ts turn_seq source_name harness inference_provider"
    " source_file source_generation source_line_no block event_kind payload_type actor_kind"
    " item_id op_status tool_name tool_call_id tool_phase tool_error model agent_label is_turn"
    " is_substream is_mirror project title input_tokens output_tokens cache_read_tokens"
    " cache_write_tokens reasoning_tokens text_content payload_json"
).split()
LINK_COLUMNS = "batch session_id event_uid link_type linked_external_id harness".split()
TOOL_COLUMNS = (
    "batch session_id tool_call_id event_uid tool_name tool_phase tool_error text_chars event_ts"
).split()
DOCUMENT_COLUMNS = (
    "doc_id batch session class doc_len event_ts harness event_kind project"
).split()
POSTING_COLUMNS = "term doc_id position session class tf doc_len".split()


@dataclass(slots=True)
class StreamCounts:
    """How far a stream has been counted."""

    events: int = 0
    ranked: int = 0
    turns: int = 0


@dataclass(slots=True)
class Rows:
    """Rows by table."""

    raw: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    events: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    links: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    tool_io: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    documents: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    postings: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])

    def add(self, batch: int, record: Record, stream: int, counts: StreamCounts) -> None:
        """Add everything one record says."""
        reading, place = record.reading, record.place
        record_ts = moment(reading.timestamp_ms)
        self.raw.append(
            (
                batch,
                reading.session_id,
                reading.key,
                place.source_name,
                place.harness,
                place.source_file,
                place.generation,
                place.line_no,
                place.offset,
                reading.record_type,
                record_ts,
                record.raw_json,
            )
        )
        uids: dict[str, str] = {}
        for event in reading.events:
            uid = uids[event.slot] = event_uid(place.harness, reading, event)
            doc_id = (stream << POSITION_BITS) | counts.events
            counts.events += 1
            counts.turns += event.is_turn
            self._add_event(batch, record, event, uid=uid, doc_id=doc_id, counts=counts)
        for link in reading.links:
            uid = uids.get(link.slot) or next(iter(uids.values()), "")
            self.links.append(
                (batch, reading.session_id, uid, link.link_type, link.target, place.harness)
            )

    def _add_event(
        self,
        batch: int,
        record: Record,
        event: Event,
        *,
        uid: str,
        doc_id: int,
        counts: StreamCounts,
    ) -> None:
        reading, place = record.reading, record.place
        event_ts = moment(reading.timestamp_ms)
        usage = event.usage or _NO_USAGE
        self.events.append(
            (
                doc_id,
                batch,
                uid,
                event.session_id,
                event_ts,
                counts.turns,
                place.source_name,
                place.harness,
                place.provider,
                place.source_file,
                place.generation,
                place.line_no,
                event.block,
                event.kind,
                event.payload_type,
                event.actor,
                event.item_id,
                event.op_status,
                event.tool_name,
                event.tool_call_id,
                event.tool_phase,
                event.tool_error,
                event.model,
                event.agent_label,
                event.is_turn,
                event.is_substream,
                event.is_mirror,
                reading.cwd,
                event.title,
                usage.input,
                usage.output,
                usage.cache_read,
                usage.cache_write,
                usage.reasoning,
                event.text,
                event.payload_json,
            )
        )
        if event.tool_call_id:
            self.tool_io.append(
                (
                    batch,
                    event.session_id,
                    event.tool_call_id,
                    uid,
                    event.tool_name,
                    event.tool_phase,
                    event.tool_error,
                    len(event.text),
                    event_ts,
                )
            )
        if event.text or event.title:
            self._add_document(batch, record, event, doc_id, counts)

    def _add_document(
        self, batch: int, record: Record, event: Event, doc_id: int, counts: StreamCounts
    ) -> None:
        text = event.text if event.title in event.text else f"{event.title}\n{event.text}"
        terms, length = term_counts(text[:_MAX_INDEXED_CHARS])
        if not length:
            return
        event_class = int(class_of(event))
        position = 0
        if event_class <= RANKED:
            counts.ranked += 1
            position = counts.ranked
        session = session_hash(event.session_id)
        reading = record.reading
        self.documents.append(
            (
                doc_id,
                batch,
                session,
                event_class,
                length,
                moment(reading.timestamp_ms),
                record.place.harness,
                event.kind,
                reading.cwd,
            )
        )
        self.postings += [
            (term, doc_id, position, session, event_class, min(count, 65_535), length)
            for term, count in terms.items()
        ]
