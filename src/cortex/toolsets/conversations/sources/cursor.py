"""Cursor's agent transcripts: JSON lines that often have neither an id nor a moment."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cortex.toolsets.conversations.models import Carry, Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_count,
    as_list,
    as_object,
    parse_moment,
    record_key,
    remember_tool,
    text_of,
)
from cortex.toolsets.conversations.sources.sqlite_file import word_of

_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_IDS = ("uuid", "id", "messageId", "bubbleId")
_SESSION_IDS = ("conversationId", "sessionId", "composerId", "chatId")


@dataclass(frozen=True, slots=True)
class _Line:
    """What the blocks of a line share."""

    session_id: str
    item_id: str
    role: str
    model: str
    is_substream: bool
    carry: Carry

    def event(self, slot: str, **said: Any) -> Event:
        common: dict[str, Any] = {
            "session_id": self.session_id,
            "slot": slot,
            "block": 0,
            "item_id": self.item_id,
            "model": self.model,
            "is_substream": self.is_substream,
            "agent_label": "subagent" if self.is_substream else "",
        }
        return Event(**(common | said))


class CursorReader:
    """Reads `agent-transcripts/**/*.jsonl`; a file is a session where lines do not say it."""

    harness = "cursor"
    provider = "cursor"

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        """Turn one line into what it says; never raises on a shape it does not know."""
        message = as_object(record.get("message"))
        at_ms, bad = parse_moment(record.get("timestamp") or record.get("createdAt"))
        carry.session_id = _first(record, _SESSION_IDS) or carry.session_id or file.stem
        carry.model = word_of(record.get("model") or message.get("model")) or carry.model
        carry.cwd = word_of(record.get("cwd") or record.get("workspacePath")) or carry.cwd
        parent = _parent_of(file)
        line = _Line(
            session_id=carry.session_id,
            item_id=_first(record, _IDS),
            role=word_of(record.get("role") or message.get("role")),
            model=carry.model,
            is_substream=bool(parent),
            carry=carry,
        )
        events = [replace(e, block=n) for n, e in enumerate(_events(line, record, message))]
        usage = _usage(as_object(record.get("usage") or message.get("usage")))
        if events and usage != TokenUsage():
            events[0] = replace(events[0], usage=usage)
        links = [
            Link(event.slot, "tool_use_id", event.tool_call_id)
            for event in events
            if event.kind == "tool_result" and event.tool_call_id
        ]
        if parent and events and "parent" not in carry.extra:
            carry.extra["parent"] = parent
            links.append(Link(events[0].slot, "subagent_parent", parent))
        return Reading(
            session_id=carry.session_id,
            key=record_key(line.item_id, raw, line_no, at_ms, carry),
            timestamp_ms=at_ms,
            record_type=word_of(record.get("role") or record.get("type")) or "unknown",
            cwd=carry.cwd,
            events=tuple(events),
            links=tuple(links),
            bad_timestamp=bad,
        )


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((word_of(record[name]) for name in names if record.get(name)), "")


def _parent_of(file: SourceFile) -> str:
    """Return the session a subagent's file lies below: `<parent>/subagents/<own id>.jsonl`."""
    folders = file.path.replace("\\", "/").split("/")[:-1]
    return folders[-2] if len(folders) > 1 and folders[-1] == "subagents" else ""


def _events(line: _Line, record: Mapping[str, Any], message: dict[str, Any]) -> Iterator[Event]:
    content = message.get("content", record.get("content"))
    if not line.role or not isinstance(content, str | list):
        kind = word_of(record.get("type")) or "unknown"
        status = word_of(record.get("status"))
        rest = {name: value for name, value in record.items() if name not in {"type", "status"}}
        yield line.event(
            "record",
            kind="unknown",
            payload_type=kind,
            actor="system",
            text=text_of([rest, record.get("error")]) if rest else "",
            op_status=status,
        )
        return
    blocks: list[Any] = [content] if isinstance(content, str) else content
    for place, block in enumerate(blocks):
        yield from _block(line, f"block:{place}", block)


def _block(line: _Line, slot: str, block: object) -> Iterator[Event]:
    data = {"type": "text", "text": block} if isinstance(block, str) else as_object(block)
    kind = word_of(data.get("type"))
    if kind == "text" and line.role == "user":
        yield from _prompt(line, slot, text_of(data.get("text")))
    elif kind == "text" and line.role == "assistant":
        text = text_of(data.get("text"))
        yield line.event(
            slot, kind="message", payload_type="agent_message", actor="assistant", text=text
        )
    elif kind in {"reasoning", "thinking"}:
        text = text_of(data.get("text") or data.get("thinking"))
        yield line.event(slot, kind="reasoning", payload_type=kind, actor="assistant", text=text)
    elif kind == "tool_use":
        yield _call(line, slot, data)
    elif kind == "tool_result":
        yield _result(line, slot, data)
    elif kind == "text":
        text = text_of(data.get("text"))
        yield line.event(slot, kind="system", payload_type=line.role, actor="system", text=text)
    else:
        rest = {name: value for name, value in data.items() if name != "type"}
        yield line.event(
            slot,
            kind="unknown",
            payload_type=kind or "unknown",
            actor="system",
            text=text_of(rest),
        )


def _prompt(line: _Line, slot: str, text: str) -> Iterator[Event]:
    """Take a person's words out of what Cursor wraps around them: files, rules, reminders."""
    asked = _QUERY.search(text)
    if asked is None:
        said, context = text, ""
    else:
        said, context = asked[1], (text[: asked.start()] + text[asked.end() :]).strip()
    if context:
        yield line.event(
            f"{slot}:context",
            kind="turn_context",
            payload_type="injected_context",
            actor="system",
            text=context,
        )
    yield line.event(
        slot,
        kind="message",
        payload_type="user_message",
        actor="user",
        text=said,
        is_turn=bool(said.strip()) and not line.is_substream,
    )


def _call(line: _Line, slot: str, data: dict[str, Any]) -> Event:
    call_id = word_of(data.get("id") or data.get("toolCallId"))
    name = word_of(data.get("name"))
    remember_tool(line.carry, call_id or "last", name)
    return line.event(
        slot,
        kind="tool_call",
        payload_type="tool_use",
        actor="assistant",
        text=text_of(data.get("input")),
        tool_name=name,
        tool_call_id=call_id,
        tool_phase="request",
    )


def _result(line: _Line, slot: str, data: dict[str, Any]) -> Event:
    call_id = word_of(data.get("tool_use_id") or data.get("toolCallId"))
    is_error = data.get("is_error") is True
    return line.event(
        slot,
        kind="tool_result",
        payload_type="tool_result",
        actor="tool",
        text=_content_text(data.get("content")),
        tool_name=word_of(data.get("name")) or line.carry.tools.get(call_id or "last", ""),
        tool_call_id=call_id,
        tool_phase="response",
        tool_error=is_error,
        op_status="error" if is_error else "completed",
    )


def _content_text(content: object) -> str:
    """Return the texts of a result's blocks without the names of their types."""
    blocks = as_list(content) or [content]
    return text_of([as_object(block).get("text", block) for block in blocks])


def _usage(counts: dict[str, Any]) -> TokenUsage:
    def count(*names: str) -> int:
        return next((as_count(counts[name]) for name in names if name in counts), 0)

    return TokenUsage(
        input=count("input_tokens", "inputTokens"),
        output=count("output_tokens", "outputTokens"),
        cache_read=count("cache_read_input_tokens", "cacheReadTokens"),
        cache_write=count("cache_creation_input_tokens", "cacheWriteTokens"),
    )
