"""Qwen Code (`~/.qwen/projects/*/chats`, and `subagents` beside it): one record a line.

Messages have the parts of Gemini's protocol; what surrounds them is Qwen's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cortex.toolsets.conversations.models import Carry, EventKind, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.gemini_parts import (
    display_texts,
    is_failure,
    joined,
    parts_of,
    result_text,
    split_prompt,
)
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_count,
    as_list,
    as_object,
    name_of,
    parse_moment,
    record_key,
    remember_tool,
    text_of,
)
from cortex.toolsets.conversations.sources.telling import Telling

# The only user records that a person wrote; every other subtype was put in for them.
_OWN = frozenset({"", "mid_turn_user_message", "realtime_message"})
_FAILED = frozenset({"error", "failed", "cancelled"})


@dataclass(slots=True, kw_only=True)
class _Line(Telling):
    """One record on its way to events."""

    record: Mapping[str, Any]
    carry: Carry


class QwenCodeReader:
    harness = "qwen-code"
    provider = "qwen"

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        record_type = name_of(record.get("type")) or "unknown"
        session_id = name_of(record.get("sessionId")) or carry.session_id or _session_of(file)
        carry.session_id = session_id
        carry.cwd = name_of(record.get("cwd")) or carry.cwd
        timestamp_ms, bad_timestamp = parse_moment(record.get("timestamp"))
        line = _Line(
            session_id=session_id,
            record=record,
            carry=carry,
            item_id=name_of(record.get("uuid")),
            is_substream=record.get("isSidechain") is True or "/subagents/" in file.path,
            agent_label=name_of(record.get("agentName")) or name_of(record.get("agentId")),
            model=name_of(record.get("model")),
            usage=_usage(as_object(record.get("usageMetadata"))),
        )
        _RECORDS.get(record_type, _unknown)(line)
        return Reading(
            session_id=session_id,
            key=record_key(line.item_id, raw, line_no, timestamp_ms, carry),
            timestamp_ms=timestamp_ms,
            record_type=record_type,
            cwd=carry.cwd,
            events=tuple(line.events),
            links=_links(line),
            bad_timestamp=bad_timestamp,
        )


def _user(line: _Line) -> None:
    subtype = name_of(line.record.get("subtype"))
    parts = parts_of(as_object(line.record.get("message")).get("parts"))
    own, added = split_prompt(parts)
    text, context = _spoken(own), _spoken(added)
    shown = name_of(as_object(line.record.get("systemPayload")).get("displayText"))
    if shown and shown != text:
        text, context = shown, _spoken(parts)
    if subtype not in _OWN or line.record.get("provenance") or line.record.get("externalInputKind"):
        line.add("text", "system", subtype or "injected_context", "system", text)
    else:
        line.add("text", "message", "user_message", "user", text, is_turn=not line.is_substream)
    if context:
        line.add("context", "turn_context", "injected_context", "system", context)


def _assistant(line: _Line) -> None:
    parts = parts_of(as_object(line.record.get("message")).get("parts"))
    for index, part in enumerate(parts):
        slot, call = f"part:{index}", part.get("functionCall")
        text = text_of(part.get("text"))
        if isinstance(call, dict):
            _call(line, as_object(call), slot)
        elif part.get("thought"):
            line.add(slot, "reasoning", "thinking", "assistant", text)
        elif "text" in part:
            line.add(slot, "message", "agent_message", "assistant", text)
        else:
            line.add(slot, "unknown", next(iter(part)), "assistant", "")
    if not parts:
        line.add("record", "message", "agent_message", "assistant", "")


def _call(line: _Line, call: dict[str, Any], slot: str) -> None:
    name, call_id = name_of(call.get("name")), name_of(call.get("id"))
    remember_tool(line.carry, call_id, name)
    line.add(
        slot,
        "tool_call",
        "tool_use",
        "assistant",
        text_of(call.get("args")),
        tool_name=name,
        tool_call_id=call_id,
        tool_phase="request",
    )


def _tool_result(line: _Line) -> None:
    outcome = as_object(line.record.get("toolCallResult"))
    parts = parts_of(as_object(line.record.get("message")).get("parts"))
    answers = [as_object(part.get("functionResponse")) for part in parts]
    answer = next(filter(None, answers), {})
    call_id = name_of(outcome.get("callId")) or name_of(answer.get("id")) or line.item_id
    status = name_of(outcome.get("status"))
    failed = status in _FAILED or bool(outcome.get("error")) or is_failure(parts)
    shown = display_texts(outcome.get("resultDisplay"))
    error = text_of(as_object(outcome.get("error")) or outcome.get("error"))
    line.add(
        "result",
        "tool_result",
        "tool_result",
        "tool",
        joined([result_text(parts), *shown, error]),
        tool_name=name_of(answer.get("name")) or line.carry.tools.get(call_id, ""),
        tool_call_id=call_id,
        tool_phase="response",
        tool_error=failed,
        op_status=status or ("error" if failed else "success"),
    )


def _system(line: _Line) -> None:
    subtype = name_of(line.record.get("subtype")) or "system"
    payload = as_object(line.record.get("systemPayload"))
    kind, read = _SYSTEM.get(subtype, ("unknown", text_of))
    title = name_of(payload.get("customTitle")) if subtype == "custom_title" else ""
    is_mirror = subtype in {"ui_telemetry", "at_command", "agent_bootstrap"}
    line.add("record", kind, subtype, "system", read(payload), title=title, is_mirror=is_mirror)


def _unknown(line: _Line) -> None:
    hidden = {"uuid", "parentUuid", "sessionId", "timestamp", "type", "cwd", "version", "gitBranch"}
    said = [value for name, value in line.record.items() if name not in hidden]
    line.add("record", "unknown", name_of(line.record.get("type")), "system", text_of(said))


_RECORDS: dict[str, Callable[[_Line], None]] = {
    "user": _user,
    "assistant": _assistant,
    "tool_result": _tool_result,
    "system": _system,
}


def _fields(*names: str) -> Callable[[dict[str, Any]], str]:
    return lambda payload: text_of([payload.get(name) for name in names])


def _summary(payload: dict[str, Any]) -> str:
    """Return the summary that a compression made; the history around it was told before."""
    history = [as_object(content) for content in as_list(payload.get("compressedHistory"))]
    texts = [_spoken(parts_of(content.get("parts"))) for content in history]
    made = [text for text in texts if "<state_snapshot>" in text or "<summary>" in text]
    return "\n".join([*made, text_of(as_object(payload.get("info")).get("triggerReason"))]).strip()


def _telemetry(payload: dict[str, Any]) -> str:
    """Return the failures: everything else of it stands in the messages."""
    event = as_object(payload.get("uiEvent"))
    return text_of([value for name, value in event.items() if "error" in name])


def _files(payload: dict[str, Any]) -> str:
    """Return the names of the files that a snapshot knows, not their contents."""
    snapshots = [as_object(item) for item in as_list(payload.get("snapshots"))]
    snapshots.append(as_object(payload.get("snapshot")))
    names = [name_of(item.get("path")) for item in snapshots]
    for item in snapshots:
        names += [*as_object(item.get("trackedFileBackups")), *as_object(item.get("fileStates"))]
    return "\n".join(filter(None, names))


_SYSTEM: dict[str, tuple[EventKind, Callable[[dict[str, Any]], str]]] = {
    **dict.fromkeys(
        ("agent_session_ready", "agent_retry", "branch_checkpoint", "goal_turn_end"),
        ("progress", _fields()),
    ),
    **dict.fromkeys(
        ("goal_state", "turn_result", "background_task_completed"), ("event_msg", text_of)
    ),
    **dict.fromkeys(
        ("session_artifact_event", "session_artifact_snapshot", "session_sources_snapshot"),
        ("event_msg", text_of),
    ),
    **dict.fromkeys(
        ("session_model", "session_source", "parent_session"), ("session_meta", text_of)
    ),
    **dict.fromkeys(("agent_bootstrap", "user_text_elements"), ("turn_context", _fields())),
    "custom_title": ("session_meta", _fields("customTitle")),
    "chat_compression": ("summary", _summary),
    "ui_telemetry": ("event_msg", _telemetry),
    "file_history_snapshot": ("file_history_snapshot", _files),
    "attribution_snapshot": ("file_history_snapshot", _files),
    "slash_command": ("system", _fields("rawCommand", "outputHistoryItems")),
    "at_command": ("turn_context", _fields("userText", "filesRead", "message")),
    "agent_launch_prompt": ("turn_context", _fields("displayText")),
    "rewind": ("system", _fields()),
    "omni_recall": ("turn_context", text_of),
}


def _spoken(parts: list[dict[str, Any]]) -> str:
    return text_of([part.get("text") for part in parts])


def _usage(counts: dict[str, Any]) -> TokenUsage | None:
    asked = as_count(counts.get("promptTokenCount"))
    answered = as_count(counts.get("candidatesTokenCount"))
    thoughts = as_count(counts.get("thoughtsTokenCount"))
    cached = as_count(counts.get("cachedContentTokenCount"))
    if not (asked or answered or thoughts):
        return None
    # Gemini counts thoughts beside the answer, models behind the OpenAI protocol inside it.
    if asked + answered + thoughts <= as_count(counts.get("totalTokenCount")):
        answered += thoughts
    return TokenUsage(max(0, asked - cached), answered, cached, 0, thoughts)


def _links(line: _Line) -> tuple[Link, ...]:
    slot, parent = line.events[0].slot, name_of(line.record.get("parentUuid"))
    if parent:
        return (Link(slot, "parent_uuid", parent),)
    if line.is_substream:
        return (Link(slot, "subagent_parent", line.carry.session_id),)
    return ()


def _session_of(file: SourceFile) -> str:
    """Return the session that a path names: the file, or the folder of a session's subagents."""
    _, found, rest = file.path.partition("/subagents/")
    return rest.split("/", 1)[0] if found and "/" in rest else file.stem
