"""Kimi CLI (`~/.kimi/sessions/*/*/wire.jsonl`): what went over the wire between agent and screen.

Subagents write a wire of their own, in a folder of their parent's session.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import orjson

from cortex.toolsets.conversations.models import (
    Actor,
    Carry,
    EventKind,
    Link,
    Reading,
    TokenUsage,
)
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_count,
    as_json,
    as_object,
    name_of,
    parse_moment,
    record_key,
    remember_tool,
    text_of,
)
from cortex.toolsets.conversations.sources.telling import Telling

_SLOT = "block:0"  # a message of the wire is one event


@dataclass(slots=True, kw_only=True)
class _Line(Telling):
    """One message of the wire on its way to its event."""

    payload: dict[str, Any]
    carry: Carry
    kind: str


class KimiCliReader:
    harness = "kimi-cli"
    provider = "moonshot"

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        carry.session_id, agent = _place_of(file.path)
        message = as_object(record.get("message"))
        kind = name_of(message.get("type")) or name_of(record.get("type")) or "unknown"
        timestamp_ms, bad_timestamp = parse_moment(record.get("timestamp"))
        payload = as_object(message.get("payload")) or dict(record)
        line = _Line(
            session_id=carry.session_id,
            agent_label=agent,
            is_substream=bool(agent),
            payload=payload,
            carry=carry,
            kind=kind,
        )
        links = (Link(_SLOT, "subagent_parent", carry.session_id),) if agent else ()
        if kind == "SubagentEvent":
            line, links = _inner(line)
        _MESSAGES.get(line.kind, _unknown)(line)
        key = record_key("", raw, line_no, timestamp_ms, carry)
        return Reading(
            session_id=carry.session_id,
            # A subagent shares its parent's session, and the first line of its file.
            key=f"{agent}/{key}" if agent else key,
            timestamp_ms=timestamp_ms,
            record_type=kind,
            events=tuple(line.events),
            links=links,
            bad_timestamp=bad_timestamp,
        )


class KimiStateReader:
    """Reads `state.json`, which lies beside a wire and holds the name of its session."""

    harness = "kimi-cli"
    provider = "moonshot"

    def read_all(self, file: SourceFile) -> Iterator[Reading]:
        session_id, _ = _place_of(file.path)
        try:
            state = as_object(orjson.loads(Path(file.path).read_bytes()))
        except orjson.JSONDecodeError:
            return
        if title := name_of(state.get("custom_title")):
            told = Telling(session_id=session_id)
            payload = as_json(state)
            told.add(
                _SLOT, "session_meta", "state", "system", title, title=title, payload_json=payload
            )
            yield Reading(
                session_id=session_id,
                key="state",
                timestamp_ms=parse_moment(state.get("wire_mtime"))[0],
                record_type="state",
                events=tuple(told.events),
            )


def _inner(line: _Line) -> tuple[_Line, tuple[Link, ...]]:
    """Return what a subagent said, out of its envelope; one with an id has it on its own wire."""
    outer, event = line.payload, as_object(line.payload.get("event"))
    agent_id = name_of(outer.get("agent_id"))
    call_id = name_of(outer.get("parent_tool_call_id")) or name_of(outer.get("task_tool_call_id"))
    inner = replace(
        line,
        payload=as_object(event.get("payload")) or event,
        kind=name_of(event.get("type")) or "SubagentEvent",
        agent_label=agent_id or name_of(outer.get("subagent_type")),
        is_substream=True,
        is_mirror=bool(agent_id),
        events=[],
    )
    return inner, (Link(_SLOT, "subagent_parent", call_id),) if call_id else ()


def _prompt(line: _Line) -> None:
    text = _content_text(line.payload.get("user_input", line.payload.get("question")))
    line.add(_SLOT, "message", line.kind, "user", text, is_turn=not line.is_substream)


def _content(line: _Line) -> None:
    if line.payload.get("type") == "think":
        line.add(_SLOT, "reasoning", "think", "assistant", text_of(line.payload.get("think")))
    else:
        payload_type = name_of(line.payload.get("type")) or "content"
        line.add(_SLOT, "message", payload_type, "assistant", _content_text([line.payload]))


def _tool_call(line: _Line) -> None:
    function = as_object(line.payload.get("function")) or line.payload
    name, call_id = name_of(function.get("name")), name_of(line.payload.get("id"))
    # A request to run the tool elsewhere says again what the call said.
    is_mirror = line.kind == "ToolCallRequest" and call_id in line.carry.tools
    remember_tool(line.carry, call_id, name)
    line.add(
        _SLOT,
        "tool_call",
        "tool_use",
        "assistant",
        _arguments_text(function.get("arguments")),
        tool_name=name,
        tool_call_id=call_id,
        tool_phase="request",
        is_mirror=is_mirror,
    )


def _tool_result(line: _Line) -> None:
    call_id = name_of(line.payload.get("tool_call_id"))
    value = as_object(line.payload.get("return_value"))
    failed = value.get("is_error") is True
    texts = [_content_text(value.get("output")), text_of(value.get("message"))]
    line.add(
        _SLOT,
        "tool_result",
        "tool_result",
        "tool",
        "\n".join(filter(None, texts)) or text_of(value.get("display")),
        tool_name=line.carry.tools.get(call_id, ""),
        tool_call_id=call_id,
        tool_phase="response",
        tool_error=failed,
        op_status="error" if failed else "success",
    )


def _status(line: _Line) -> None:
    line.item_id = message_id = name_of(line.payload.get("message_id"))
    counts = as_object(line.payload.get("token_usage"))
    # A status may be told again, and a mirror is counted on the subagent's own wire.
    if counts and not line.is_mirror and not (message_id and message_id == line.carry.usage_key):
        line.carry.usage_key = message_id
        names = ("input_other", "output", "input_cache_read", "input_cache_creation")
        line.usage = TokenUsage(*(as_count(counts.get(name)) for name in names))
    line.add(_SLOT, "event_msg", "token_count", "system", "")


def _noted(
    kind: EventKind, *fields: str, actor: Actor = "system", status: str = ""
) -> Callable[[_Line], None]:
    def read(line: _Line) -> None:
        text = text_of([line.payload.get(name) for name in fields])
        op_status = name_of(line.payload.get(status))
        line.item_id = name_of(line.payload.get("id"))
        line.add(_SLOT, kind, line.kind, actor, text, op_status=op_status)

    return read


def _unknown(line: _Line) -> None:
    line.add(_SLOT, "unknown", line.kind, "system", text_of(line.payload))


_MESSAGES: dict[str, Callable[[_Line], None]] = {
    **dict.fromkeys(("TurnEnd", "StepBegin", "StepInterrupted"), _noted("progress")),
    **dict.fromkeys(("MCPLoadingBegin", "MCPLoadingEnd"), _noted("progress")),
    **dict.fromkeys(("CompactionBegin", "CompactionEnd"), _noted("compacted_raw")),
    "metadata": _noted("session_meta"),
    "TurnBegin": _prompt,
    "SteerInput": _prompt,
    "BtwBegin": _prompt,
    "BtwEnd": _noted("message", "response", "error", actor="assistant"),
    "ContentPart": _content,
    "PlanDisplay": _noted("message", "file_path", "content", actor="assistant"),
    "ToolCall": _tool_call,
    "ToolCallRequest": _tool_call,
    "ToolCallPart": _noted("progress", "arguments_part"),
    "ToolResult": _tool_result,
    "StatusUpdate": _status,
    "StepRetry": _noted("progress", "error_type"),
    "HookTriggered": _noted("event_msg", "event", "target"),
    "HookResolved": _noted("event_msg", "event", "target", "reason", status="action"),
    "HookRequest": _noted("event_msg", "event", "target"),
    "HookResponse": _noted("event_msg", "reason", status="action"),
    "Notification": _noted("system", "title", "body", status="severity"),
    "ApprovalRequest": _noted("event_msg", "action", "description"),
    "ApprovalResponse": _noted("event_msg", "feedback", actor="user", status="response"),
    "QuestionRequest": _noted("event_msg", "questions", actor="assistant"),
    "QuestionResponse": _noted("event_msg", "answers", actor="user"),
}
# Approvals were called so before 1.0.
_MESSAGES["ApprovalRequestResolved"] = _MESSAGES["ApprovalResponse"]


def _content_text(content: object) -> str:
    """Return the texts of a content and the addresses of its media, never media themselves."""
    if not isinstance(content, list):
        return text_of(content)
    texts: list[object] = []
    for part in cast("list[object]", content):
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            texts += [fields.get("text"), fields.get("think")]
            media = as_object(fields.get(name_of(fields.get("type"))))
            address = name_of(media.get("url"))
            texts.append("" if address.startswith("data:") else address)
        else:
            texts.append(part)
    return text_of(texts)


def _arguments_text(arguments: object) -> str:
    """Return the values of a call's input, which is JSON inside a string, at times cut short."""
    if not isinstance(arguments, str):
        return text_of(arguments)
    try:
        return text_of(orjson.loads(arguments))
    except orjson.JSONDecodeError:
        return arguments


def _place_of(path: str) -> tuple[str, str]:
    """Return the session that a path names and, inside one of its subagents, the subagent."""
    folders = path.split("/")[:-1] or [""]
    if len(folders) > 2 and folders[-2] == "subagents":
        return folders[-3], folders[-1]
    return folders[-1] or "kimi-cli", ""
