"""Codex (`~/.codex/sessions`): which record says what; see codex_items.py and codex_events.py.

Holds no state: what one record must know of earlier ones is in the `Carry`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from cortex.toolsets.conversations.models import Carry, Event, Link, Reading
from cortex.toolsets.conversations.sources.codex_events import SAID, read_event, read_usage
from cortex.toolsets.conversations.sources.codex_items import (
    ITEMS,
    Line,
    content_text,
    read_item,
)
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_count,
    as_list,
    as_object,
    name_of,
    parse_moment,
    record_key,
    text_of,
)

_MOMENT, _AGENT, _OWN_FROM = "at", "agent", "own_from"


class CodexReader:
    harness = "codex"
    provider = "openai"

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        record_type = _record_type(record)
        payload = as_object(record.get("payload"))
        if not payload:
            payload = dict(record)  # the oldest clients wrote items and the header as they are
        timestamp_ms, bad_timestamp = parse_moment(record.get("timestamp"))
        if timestamp_ms:
            carry.extra[_MOMENT] = str(timestamp_ms)
        elif _MOMENT not in carry.extra:
            carry.extra[_MOMENT] = str(_moment_of(file.stem))
        links: list[Link] = []
        is_copy = record_type == "session_meta" and not _begin(payload, carry, links)
        line = Line(
            record=record,
            payload=payload,
            carry=carry,
            session_id=carry.session_id or _session_of(file.stem),
            agent_label=carry.extra.get(_AGENT, ""),
            is_mirror=is_copy or _is_inherited(record, carry),
        )
        events = _RECORDS.get(record_type, _unknown)(line)
        key = record_key("", raw, line_no, timestamp_ms, carry)
        if parent := name_of(record.get("parent_id")):
            links.append(Link(events[0].slot, "parent_event", parent))
        if len(events) > 1:
            links += [Link(event.slot, "compacted_parent", key) for event in events[1:]]
        return Reading(
            session_id=line.session_id,
            key=key,
            timestamp_ms=timestamp_ms or int(carry.extra[_MOMENT]),
            record_type=record_type,
            cwd=carry.cwd,
            events=tuple(events),
            links=tuple(links),
            bad_timestamp=bad_timestamp,
        )


def _session_meta(line: Line) -> list[Event]:
    payload = line.payload
    text = text_of(payload.get("git"))
    item_id = name_of(payload.get("id"))
    return [line.event("session_meta", "session_meta", "system", text, item_id=item_id)]


def _turn_context(line: Line) -> list[Event]:
    payload = line.payload
    line.carry.model = name_of(payload.get("model")) or line.carry.model
    line.carry.cwd = name_of(payload.get("cwd")) or line.carry.cwd
    turn_id = name_of(payload.get("turn_id"))
    return [line.event("turn_context", "turn_context", "system", "", item_id=turn_id)]


def _world_state(line: Line) -> list[Event]:
    return [line.event("turn_context", "world_state", "system", "")]


def _state(line: Line) -> list[Event]:
    return [line.event("system", "state", "system", "")]


def _response_item(line: Line) -> list[Event]:
    return [read_item(line, line.payload)]


def _between_agents(line: Line) -> list[Event]:
    text = content_text(line.payload.get("content"))
    record_type = _record_type(line.record)
    return [line.event("message", record_type, "assistant", text)]


def _compacted(line: Line) -> list[Event]:
    """Return the summary and, as mirrors, the history that stands for the one before it."""
    payload = line.payload
    history = as_list(payload.get("replacement_history"))
    text = name_of(payload.get("message"))
    events = [line.event("compacted_raw", "compacted", "system", text)]
    line.is_mirror = True
    for index, item in enumerate(history):
        line.slot, line.block = f"history:{index}", index + 1
        events.append(read_item(line, as_object(item)))
    return events


def _unknown(line: Line) -> list[Event]:
    text = text_of([value for name, value in line.payload.items() if name in SAID])
    record_type = _record_type(line.record)
    return [line.event("unknown", record_type, "system", text)]


_RECORDS: dict[str, Callable[[Line], list[Event]]] = {
    "session_meta": _session_meta,
    "turn_context": _turn_context,
    "world_state": _world_state,
    "state": _state,
    "response_item": _response_item,
    "event_msg": read_event,
    "compacted": _compacted,
    "token_usage_record": read_usage,
    "inter_agent_communication": _between_agents,
    **dict.fromkeys(ITEMS, _response_item),
}


def _record_type(record: Mapping[str, Any]) -> str:
    """Return the record's type; the header of the oldest files has none, nor have state marks."""
    if record_type := name_of(record.get("type")):
        return record_type
    return "session_meta" if record.get("id") else name_of(record.get("record_type")) or "unknown"


def _begin(payload: dict[str, Any], carry: Carry, links: list[Link]) -> bool:
    """Take up the session a file is of; a second header was copied with a forked history."""
    session_id = name_of(payload.get("id")) or name_of(payload.get("session_id"))
    if carry.session_id and session_id != carry.session_id:
        return False
    carry.session_id = session_id
    carry.cwd = name_of(payload.get("cwd")) or carry.cwd
    carry.model = name_of(payload.get("model")) or carry.model
    source = as_object(payload.get("source")).get("subagent")
    spawned = as_object(as_object(source).get("thread_spawn"))
    parent = name_of(payload.get("parent_thread_id")) or name_of(spawned.get("parent_thread_id"))
    if source or parent or payload.get("thread_source") == "subagent":
        names = [
            where.get(field)
            for field in ("agent_nickname", "agent_role", "agent_type")
            for where in (payload, spawned)
        ]
        carry.extra[_AGENT] = next(filter(None, map(name_of, [*names, source])), "subagent")
    if parent:
        links.append(Link("record", "subagent_parent", parent))
    own_from = as_count(payload.get("subagent_history_start_ordinal"))
    if own_from:
        carry.extra[_OWN_FROM] = str(own_from)
    return True


def _is_inherited(record: Mapping[str, Any], carry: Carry) -> bool:
    own_from = carry.extra.get(_OWN_FROM)
    ordinal = record.get("ordinal")
    return own_from is not None and isinstance(ordinal, int) and 0 < ordinal < int(own_from)


def _session_of(stem: str) -> str:
    """Return the id at the end of `rollout-<moment>-<id>`."""
    return stem[-36:] if len(stem) > 36 and stem[-37] == "-" else stem


def _moment_of(stem: str) -> int:
    day, _, time = stem.removeprefix("rollout-")[:19].partition("T")
    return parse_moment(f"{day}T{time.replace('-', ':')}")[0]
