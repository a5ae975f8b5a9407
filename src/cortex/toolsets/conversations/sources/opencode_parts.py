"""What opencode's records say: a session, its messages and their parts, as events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.toolsets.conversations.models import Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.reader import (
    as_count,
    as_json,
    as_list,
    as_object,
    parse_moment,
    text_of,
)
from cortex.toolsets.conversations.sources.sqlite_file import word_of

_MADE_UP_TITLES = ("New session - ", "Child session - ")
_DONE = ("completed", "error")


@dataclass(frozen=True, slots=True)
class Record:
    """A message or a part: its id, what it says, when its row was made, and its own words."""

    id: str
    data: dict[str, Any]
    made: object
    payload: str


Message = tuple[Record, list[Record]]


@dataclass(frozen=True, slots=True)
class _Around:
    """What a part does not say itself: its session and its message."""

    session: dict[str, Any]
    message: Record
    is_mirror: bool

    @property
    def role(self) -> str:
        return word_of(self.message.data.get("role"))

    def event(self, record: Record, slot: str, **said: Any) -> Event:
        """Make an event of this message with what all of them have in common."""
        data, is_substream = self.message.data, bool(self.session.get("parentID"))
        model = as_object(data.get("model"))
        agent = data.get("agent") or data.get("mode") or self.session.get("agent")
        common: dict[str, Any] = {
            "session_id": word_of(self.session.get("id")),
            "slot": slot,
            "block": 0,
            "item_id": record.id,
            "model": word_of(data.get("modelID") or model.get("modelID") or model.get("id")),
            "is_substream": is_substream,
            "is_mirror": self.is_mirror,
            "agent_label": word_of(agent) if is_substream else "",
            "payload_json": record.payload,
        }
        return Event(**(common | said))

    def reading(self, record: Record, at_ms: int, *events: Event, call_id: str = "") -> Reading:
        """Make the reading of one row."""
        cwd = as_object(self.message.data.get("path")).get("cwd") or self.session.get("directory")
        return Reading(
            session_id=word_of(self.session.get("id")),
            key=f"id:{record.id}",
            timestamp_ms=at_ms,
            record_type=word_of(record.data.get("type")) or "message",
            cwd=word_of(cwd),
            events=events,
            links=tuple(Link(e.slot, "tool_use_id", call_id) for e in events[1:] if call_id),
        )


def read_session(info: dict[str, Any]) -> Reading:
    """Return what the row of a session says: its title, and whose child it is."""
    session_id, parent = word_of(info.get("id")), word_of(info.get("parentID"))
    title = word_of(info.get("title"))
    title = "" if title.startswith(_MADE_UP_TITLES) else title
    at_ms, bad = parse_moment(as_object(info.get("time")).get("created"))
    event = Event(
        session_id=session_id,
        slot="session",
        block=0,
        kind="session_meta",
        payload_type="session",
        actor="system",
        text=title,
        title=title,
        item_id=session_id,
        model=word_of(as_object(info.get("model")).get("id")),
        is_substream=bool(parent),
        agent_label=word_of(info.get("agent")) if parent else "",
        payload_json=as_json(info),
    )
    return Reading(
        session_id=session_id,
        key=f"id:{session_id}",
        timestamp_ms=at_ms,
        record_type="session",
        cwd=word_of(info.get("directory")),
        events=(event,),
        links=(Link("session", "subagent_parent", parent),) if parent else (),
        bad_timestamp=bad,
    )


def read_messages(
    session: dict[str, Any], messages: Sequence[Message], *, is_mirror: bool = False
) -> Iterator[Reading]:
    """Return what messages and their parts say, a reading for each row that says something."""
    for message, parts in messages:
        around = _Around(session, message, is_mirror)
        said_at = as_object(message.data.get("time")).get("created") or message.made
        at_ms, bad = parse_moment(said_at)
        has_steps = any(part.data.get("type") == "step-finish" for part in parts)
        own = list(_own_words(around, has_steps=has_steps))
        if own or bad:
            reading = around.reading(message, at_ms, *own)
            yield replace(reading, bad_timestamp=bad)
        asked = next((p.id for p in parts if _is_prompt(around, p.data)), None)
        for part in parts:
            state = as_object(part.data.get("state"))
            times = as_object(part.data.get("time")) or as_object(state.get("time"))
            # A part without a moment of its own follows the one before it.
            at_ms = parse_moment(times.get("start") or part.made)[0] or at_ms
            yield _read_part(around, part, at_ms, is_turn=part.id == asked)


def _own_words(around: _Around, *, has_steps: bool) -> Iterator[Event]:
    """Return what a message says beside its parts: an error, a summary, tokens no step tells."""
    message = around.message
    error = as_object(message.data.get("error"))
    summary = as_object(message.data.get("summary"))
    usage = None if has_steps or around.is_mirror else _usage(message.data.get("tokens"))
    if error:
        said = text_of([error.get("name"), as_object(error.get("data")).get("message")])
        yield around.event(
            message,
            "error",
            kind="system",
            payload_type="error",
            actor="system",
            text=said,
            op_status="error",
        )
    if text := text_of([summary.get("title"), summary.get("body")]):
        yield around.event(
            message, "summary", kind="summary", payload_type="summary", actor="system", text=text
        )
    if usage:
        yield around.event(
            message,
            "usage",
            kind="event_msg",
            payload_type="usage",
            actor="assistant",
            usage=usage,
            op_status=word_of(message.data.get("finish")),
        )


def _is_prompt(around: _Around, part: dict[str, Any]) -> bool:
    """Say whether a part is a person's own words; a message's first such part is the turn."""
    if around.role != "user" or around.session.get("parentID") or around.is_mirror:
        return False
    if part.get("type") == "text":
        is_injected = part.get("synthetic") or part.get("ignored")
        return not is_injected and bool(word_of(part.get("text")).strip())
    return part.get("type") == "subtask"


def _read_part(around: _Around, part: Record, at_ms: int, *, is_turn: bool) -> Reading:
    kind = word_of(part.data.get("type"))
    if kind in {"tool", "shell"}:
        return _read_tool(around, part, at_ms)
    said: dict[str, Any] = {
        "payload_type": kind or "unknown",
        "actor": "user" if around.role == "user" else "assistant",
    }
    if kind in {"text", "reasoning", "subtask"}:
        said |= _spoken(around, part.data, kind) | {"is_turn": is_turn}
    else:
        said |= _noted(part, kind)
    return around.reading(part, at_ms, around.event(part, kind or "part", **said))


def _spoken(around: _Around, data: dict[str, Any], kind: str) -> dict[str, Any]:
    text = text_of(data.get("text"))
    if kind == "reasoning":
        return {"kind": "reasoning", "text": text}
    if kind == "subtask":
        asked = [data.get(name) for name in ("command", "description", "prompt")]
        return {"kind": "message", "text": text_of(asked)}
    if data.get("synthetic") or data.get("ignored"):
        context = {"kind": "turn_context", "payload_type": "synthetic", "actor": "system"}
        return {**context, "text": text}
    if around.message.data.get("summary") is True:
        return {"kind": "summary", "payload_type": "compaction", "text": text}
    return {"kind": "message", "text": text}


def _noted(part: Record, kind: str) -> dict[str, Any]:
    data = part.data
    if kind in {"file", "agent"}:
        return {"kind": "turn_context", "text": _attached(data)}
    if kind in {"patch", "snapshot"}:
        return {"kind": "file_history_snapshot", "text": text_of(data.get("files"))}
    said: dict[str, Any] = {"actor": "system"}
    if kind in {"step-start", "step-finish"}:
        status = word_of(data.get("reason"))
        return said | {
            "kind": "progress",
            "usage": _usage(data.get("tokens")),
            "op_status": status,
        }
    if kind == "compaction":
        text = text_of([data.get("text"), data.get("summary")])
        return said | {"kind": "compacted_raw", "text": text}
    if kind == "retry":
        text = text_of(as_object(data.get("error")).get("data"))
        return said | {"kind": "system", "text": text, "op_status": "error"}
    rest = {name: value for name, value in data.items() if name != "type"}
    return said | {"kind": "unknown", "text": text_of(rest or part.payload)}


def _attached(data: dict[str, Any]) -> str:
    url = word_of(data.get("url"))
    source = as_object(data.get("source"))
    where = "" if url.startswith("data:") else url
    return text_of([data.get("filename"), data.get("name"), source.get("path"), where])


def _read_tool(around: _Around, part: Record, at_ms: int) -> Reading:
    data, state = part.data, as_object(part.data.get("state"))
    status = word_of(state.get("status"))
    call_id = word_of(data.get("callID") or data.get("id"))
    # A command that failed is "completed" for opencode; its exit code says otherwise.
    is_error = status == "error" or bool(as_object(state.get("metadata")).get("exit"))
    common: dict[str, Any] = {
        "tool_name": word_of(data.get("tool") or data.get("name") or data.get("type")),
        "tool_call_id": call_id,
        "tool_error": is_error,
        "op_status": status,
    }
    asked = state.get("input") or data.get("command")
    call = around.event(
        part,
        "call",
        kind="tool_call",
        payload_type="tool_use",
        actor="assistant",
        text=text_of(asked),
        tool_phase="request",
        **common,
    )
    blocks = [as_object(block).get("text") for block in as_list(state.get("content"))]
    answered = text_of([state.get("output"), *blocks, _error_text(state), data.get("output")])
    if status not in _DONE and not answered:
        return around.reading(part, at_ms, call)
    result = around.event(
        part,
        "result",
        block=1,
        kind="tool_result",
        payload_type="tool_result",
        actor="tool",
        text=answered,
        tool_phase="response",
        **common,
    )
    # The result has the whole part; the call beside it only what was asked.
    call = replace(call, payload_json=as_json({"input": asked}))
    return around.reading(part, at_ms, call, result, call_id=call_id)


def _error_text(state: dict[str, Any]) -> str:
    error = state.get("error")
    return text_of(as_object(error).get("message") or error)


def _usage(tokens: object) -> TokenUsage | None:
    counts = as_object(tokens)
    cache = as_object(counts.get("cache"))
    usage = TokenUsage(
        input=as_count(counts.get("input")),
        output=as_count(counts.get("output")),
        cache_read=as_count(cache.get("read")),
        cache_write=as_count(cache.get("write")),
        reasoning=as_count(counts.get("reasoning")),
    )
    return usage if usage != TokenUsage() else None
