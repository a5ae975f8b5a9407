"""From a record to its rows, as far as they do not depend on the store: no numbers yet.

Plain tuples, as they travel between processes.
"""

from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

from cortex.text.terms import term_counts
from cortex.toolsets.conversations.ingest.values import Record, event_uid, moment, session_hash
from cortex.toolsets.conversations.models import Event, TokenUsage
from cortex.toolsets.conversations.ranking import RANKED, class_of

# A tool may print megabytes; what is looked for stands at the beginning.
_MAX_RANKED_CHARS, _MAX_OTHER_CHARS = 65_536, 16_384
_MAX_16, _MAX_32 = 2**16 - 1, 2**32 - 1
_NO_USAGE = TokenUsage()

Row = tuple[Any, ...]
Stream = tuple[str, str, int]  # session, origin of the file, generation

# The numbers come first in each table, so that a row is made by putting them before these.
RAW_COLUMNS = (
    "batch doc_id session_id record_key reading_mark event_count source_name harness source_file"
    " source_generation source_line_no source_offset top_type record_ts raw_json"
).split()
EVENT_COLUMNS = (
    "batch doc_id turn_seq event_uid session_id event_ts source_name harness inference_provider"
    " source_file source_generation source_line_no block event_kind payload_type actor_kind"
    " item_id op_status tool_name tool_call_id tool_phase tool_error model agent_label is_turn"
    " is_substream is_mirror project title input_tokens output_tokens cache_read_tokens"
    " cache_write_tokens reasoning_tokens text_content"
).split()
STREAM_COLUMNS = "batch session_id origin source_generation part stream".split()
LINK_COLUMNS = "batch session_id event_uid link_type linked_external_id harness".split()
TOOL_COLUMNS = (
    "batch session_id tool_call_id event_uid tool_name tool_phase tool_error text_chars event_ts"
).split()
DOCUMENT_COLUMNS = (
    "batch doc_id position session class doc_len event_ts harness event_kind project terms tfs"
).split()


class Prepared(NamedTuple):
    """The rows of one record, without batch and numbers."""

    stream: Stream
    key: str
    mark: int
    redactions: Mapping[str, int]
    raw: Row
    events: list[tuple[bool, Row, bool, Row | None]]  # is a turn, event, is ranked, document
    links: list[Row]
    tools: list[Row]

    @property
    def session_id(self) -> str:
        """Return the session of the record."""
        return self.stream[0]


def prepared(record: Record) -> Prepared:
    """Make everything of a record that can be made without the store."""
    reading, place = record.reading, record.place
    at = moment(reading.timestamp_ms)
    raw = (
        reading.session_id,
        reading.key,
        record.mark,
        len(reading.events),
        place.source_name,
        place.harness,
        place.source_file,
        place.generation,
        place.line_no,
        place.offset,
        reading.record_type,
        at,
        record.raw_json,
    )
    uids = {event.slot: event_uid(place.harness, reading, event) for event in reading.events}
    made: list[tuple[bool, Row, bool, Row | None]] = []
    for event in reading.events:
        row = _event(record, event, uids[event.slot], at)
        is_ranked, document = _document(record, event, at)
        made.append((event.is_turn, row, is_ranked, document))
    first = next(iter(uids.values()), "")
    return Prepared(
        (reading.session_id, place.origin, place.generation),
        reading.key,
        record.mark,
        dict(record.redactions),
        raw,
        made,
        [
            (
                reading.session_id,
                uids.get(link.slot, first),
                link.link_type,
                link.target,
                place.harness,
            )
            for link in reading.links
            if uids
        ],
        [_tool(e, uids[e.slot], at) for e in reading.events if e.tool_call_id],
    )


def _event(record: Record, event: Event, uid: str, at: int) -> Row:
    place = record.place
    usage = event.usage or _NO_USAGE
    return (
        uid,
        event.session_id,
        at,
        place.source_name,
        place.harness,
        place.provider,
        place.source_file,
        place.generation,
        place.line_no,
        min(max(event.block, 0), _MAX_16),
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
        record.reading.cwd,
        event.title,
        min(usage.input, _MAX_32),
        min(usage.output, _MAX_32),
        min(usage.cache_read, _MAX_32),
        min(usage.cache_write, _MAX_32),
        min(usage.reasoning, _MAX_32),
        event.text,
    )


def _tool(event: Event, uid: str, at: int) -> Row:
    return (
        event.session_id,
        event.tool_call_id,
        uid,
        event.tool_name,
        event.tool_phase,
        event.tool_error,
        len(event.text),
        at,
    )


def _document(record: Record, event: Event, at: int) -> tuple[bool, Row | None]:
    """Return whether an event is ranked and what the index holds of it, nothing without words."""
    event_class = int(class_of(event))
    is_ranked = event_class <= RANKED
    text = event.text if event.title in event.text else f"{event.title}\n{event.text}"
    terms, length = term_counts(text[: _MAX_RANKED_CHARS if is_ranked else _MAX_OTHER_CHARS])
    if not length:
        return False, None
    try:
        counts = array("H", terms.values())
    except OverflowError:
        counts = array("H", [min(count, _MAX_16) for count in terms.values()])
    return is_ranked, (
        session_hash(event.session_id),
        event_class,
        length,
        at,
        record.place.harness,
        event.kind,
        record.reading.cwd,
        # Two values instead of a hundred: the store takes them apart.
        "\n".join(terms),
        counts.tobytes(),
    )
