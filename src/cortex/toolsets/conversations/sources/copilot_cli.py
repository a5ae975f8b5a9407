"""Copilot CLI (`~/.copilot/session-state/*/events.jsonl`): one event of the session a line.

A call stands in the answer that asks for it and again where it starts; the first is the one kept.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.conversations.models import (
    Actor,
    Carry,
    Event,
    EventKind,
    Link,
    Reading,
    TokenUsage,
)
from cortex.toolsets.conversations.sources.reader import (
    MAX_TEXT_CHARS,
    SourceFile,
    as_count,
    as_json,
    as_list,
    as_object,
    fingerprint,
    parse_moment,
    record_key,
    remember_tool,
    text_of,
)

_MAX_KEPT = 128
_LAST_THOUGHT = "thought"


@dataclass(slots=True)
class _Line:
    """One event of the agent on its way to ours, with what stands on each of them."""

    kind: str
    data: dict[str, Any]
    carry: Carry
    item_id: str
    agent: str  # the subagent that speaks, or the call that started it
    usage: TokenUsage | None = None  # taken by the first event that says something new
    events: list[Event] = field(default_factory=list[Event])

    def add(
        self, slot: str, kind: EventKind, payload_type: str, actor: Actor, text: str, **fields: Any
    ) -> None:
        usage = None
        if not fields.get("is_mirror"):
            usage, self.usage = self.usage, None
        self.events.append(
            Event(
                session_id=self.carry.session_id,
                slot=slot,
                block=len(self.events),
                kind=kind,
                payload_type=payload_type,
                actor=actor,
                text=text[:MAX_TEXT_CHARS],
                item_id=self.item_id,
                model=_string(self.data.get("model")) or self.carry.model,
                is_substream=bool(self.agent),
                agent_label=self.carry.extra.get(f"agent:{self.agent}", self.agent),
                usage=usage,
                payload_json=as_json(fields.pop("payload", self.data)),
                **fields,
            )
        )


class CopilotCliReader:
    harness = "copilot-cli"
    provider = "github"

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        kind = _string(record.get("type")) or "unknown"
        data = as_object(record.get("data")) or ({} if "data" in record else dict(record))
        _learn(kind, data, file, carry)
        timestamp_ms, bad_timestamp = parse_moment(record.get("timestamp"))
        item_id = _string(record.get("id"))
        started_by = _string(data.get("parentToolCallId"))
        agent = _string(record.get("agentId")) or started_by
        line = _Line(kind, data, carry, item_id, agent)
        _KINDS.get(kind, _unknown)(line)
        slot, parent = line.events[0].slot, _string(record.get("parentId"))
        links = [Link(slot, "parent_event", parent)] if parent else []
        if agent:
            links.append(Link(slot, "subagent_parent", started_by or agent))
        return Reading(
            session_id=carry.session_id,
            key=record_key(item_id, raw, line_no, timestamp_ms, carry),
            timestamp_ms=timestamp_ms,
            record_type=kind,
            cwd=carry.cwd,
            events=tuple(line.events),
            links=tuple(links),
            bad_timestamp=bad_timestamp,
        )


class CopilotWorkspaceReader:
    """Reads `workspace.yaml`, which lies beside the events and holds the name of their session."""

    harness = "copilot-cli"
    provider = "github"

    def read_all(self, file: SourceFile) -> Iterator[Reading]:
        fields: dict[str, str] = {}
        for row in Path(file.path).read_text("utf-8", "replace").splitlines():
            name, found, value = row.partition(": ")
            if found and name.isidentifier():
                fields[name] = value.strip().strip("\"'")
        carry = Carry(session_id=fields.get("id") or _session_of(file))
        if title := fields.get("name") or fields.get("summary", ""):
            line = _Line("workspace", dict(fields), carry, "", "")
            line.add("record", "session_meta", "workspace", "system", title, title=title)
            moment = parse_moment(fields.get("updated_at") or fields.get("created_at"))[0]
            yield Reading(
                session_id=carry.session_id,
                key="workspace",
                timestamp_ms=moment,
                record_type="workspace",
                cwd=fields.get("cwd", ""),
                events=tuple(line.events),
            )


def _learn(kind: str, data: dict[str, Any], file: SourceFile, carry: Carry) -> None:
    """Keep what later events of the session do not say again."""
    if kind == "session.start":
        carry.session_id = _string(data.get("sessionId")) or carry.session_id
    carry.session_id = carry.session_id or _session_of(file)
    if kind in {"session.start", "session.resume", "session.context_changed"}:
        context = as_object(data.get("context")) or data
        carry.cwd = _string(context.get("cwd")) or carry.cwd
    chosen = _string(data.get("newModel")) or _string(data.get("selectedModel"))
    carry.model = chosen or carry.model


def _user(line: _Line) -> None:
    source = _string(line.data.get("source"))
    # A command from another screen is a person's; skills, schedules and autopilot are not.
    injected = line.data.get("isAutopilotContinuation") is True or not (
        source == "" or source.startswith("command-")
    )
    text = text_of(line.data.get("content"))
    if injected:
        line.add("text", "turn_context", source or "autopilot", "system", text)
    else:
        line.add("text", "message", "user_message", "user", text, is_turn=not line.agent)
    sent = text_of(line.data.get("transformedContent"))
    if sent and sent != text:
        line.add("sent", "turn_context", "transformed", "system", sent, payload="", is_mirror=True)
    for index, item in enumerate(as_list(line.data.get("attachments"))):
        slot, about = f"attachment:{index}", as_object(item)
        names = ("displayName", "title", "path", "filePath", "url", "text")
        said = text_of([about.get(name) for name in names])
        line.add(slot, "turn_context", "attachment", "user", said, payload=item)


def _assistant(line: _Line) -> None:
    # Only the answer's own tokens are written; several records may be chunks of one response.
    response, count = _string(line.data.get("apiCallId")), as_count(line.data.get("outputTokens"))
    if count and not (response and f"response:{response}" in line.carry.extra):
        _remember(line.carry, f"response:{response}", "counted")
        line.usage = TokenUsage(output=count)
    if thought := text_of(line.data.get("reasoningText")):
        _thought(line, "reasoning", thought)
    requests = as_list(line.data.get("toolRequests"))
    text = text_of(line.data.get("content"))
    if text or not (requests or (line.events and line.usage is None)):
        said = {name: value for name, value in line.data.items() if name != "toolRequests"}
        line.add("text", "message", "agent_message", "assistant", text, payload=said)
    for index, request in enumerate(requests):
        _call(line, as_object(request), f"call:{index}", "name", is_mirror=False)


def _thought(line: _Line, slot: str, text: str) -> None:
    """Add a thought; the agent writes it on its own and with the answer, in either order."""
    digest = fingerprint(text.encode("utf-8", "surrogatepass"))
    is_mirror = line.carry.extra.get(_LAST_THOUGHT) == digest
    _remember(line.carry, _LAST_THOUGHT, digest)
    payload = {"content": text} if slot == "reasoning" else line.data
    line.add(
        slot, "reasoning", "reasoning", "assistant", text, payload=payload, is_mirror=is_mirror
    )


def _remember(carry: Carry, name: str, value: str) -> None:
    """Keep a value for the next events; the oldest are forgotten."""
    carry.extra.pop(name, None)
    carry.extra[name] = value
    while len(carry.extra) > _MAX_KEPT:
        carry.extra.pop(next(iter(carry.extra)))


def _reasoning(line: _Line) -> None:
    _thought(line, "record", text_of(line.data.get("content")))


def _call(
    line: _Line, call: dict[str, Any], slot: str, name_field: str, *, is_mirror: bool
) -> None:
    name, call_id = _string(call.get(name_field)), _string(call.get("toolCallId"))
    remember_tool(line.carry, call_id, name)
    line.add(
        slot,
        "tool_call",
        "tool_use",
        "user" if line.kind == "tool.user_requested" else "assistant",
        text_of([_input_of(call.get("arguments")), call.get("intentionSummary")]),
        payload=call,
        tool_name=name,
        tool_call_id=call_id,
        tool_phase="request",
        is_mirror=is_mirror,
    )


def _input_of(arguments: object) -> object:
    """Return a call's input, which the first versions wrote as JSON inside a string."""
    if not isinstance(arguments, str) or not arguments.startswith("{"):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments


def _tool_start(line: _Line) -> None:
    is_mirror = _string(line.data.get("toolCallId")) in line.carry.tools
    _call(line, line.data, "record", "toolName", is_mirror=is_mirror)


def _tool_complete(line: _Line) -> None:
    call_id = _string(line.data.get("toolCallId"))
    result, error = as_object(line.data.get("result")), as_object(line.data.get("error"))
    failed = line.data.get("success") is False or bool(error)
    texts = [text_of(result.get("content")), text_of(result.get("detailedContent"))]
    if not any(texts):
        texts = [_blocks_text(result.get("contents"))]
    line.add(
        "record",
        "tool_result",
        "tool_result",
        "tool",
        "\n".join(dict.fromkeys(filter(None, [*texts, text_of(error.get("message"))]))),
        tool_name=line.carry.tools.get(call_id, ""),
        tool_call_id=call_id,
        tool_phase="response",
        tool_error=failed,
        op_status=_string(error.get("code")) or ("failed" if failed else "success"),
    )


def _subagent(line: _Line) -> None:
    name = _string(line.data.get("agentName"))
    call_id = _string(line.data.get("toolCallId"))
    for agent in filter(None, (call_id, line.agent) if name else ()):
        _remember(line.carry, f"agent:{agent}", name)
    names = ("agentDisplayName", "agentName", "agentDescription", "error")
    failed = line.kind == "subagent.failed"
    line.add(
        "record",
        "event_msg",
        line.kind,
        "system",
        text_of([line.data.get(name) for name in names]),
        tool_call_id=call_id,
        tool_error=failed,
        op_status=line.kind.rpartition(".")[2],
    )


def _shutdown(line: _Line) -> None:
    """Count what no answer says: the tokens read in this run. Those of the answers stand there."""
    metrics = as_object(line.data.get("modelMetrics")).values()
    spent = [as_object(as_object(metric).get("usage")) for metric in metrics]
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
    read, cached, kept, thought = (
        sum(as_count(usage.get(name)) for usage in spent) for name in names
    )
    if read or cached or kept:
        line.usage = TokenUsage(max(0, read - cached), 0, cached, kept, thought)
    changed = as_object(line.data.get("codeChanges")).get("filesModified")
    text = text_of([line.data.get("errorReason"), changed])
    status = _string(line.data.get("shutdownType"))
    line.add("record", "event_msg", line.kind, "system", text, op_status=status)


def _import(line: _Line) -> None:
    """Tell a session of the first versions, which the next ones take over as a single event."""
    session = as_object(line.data.get("legacySession"))
    for index, item in enumerate(as_list(session.get("chatMessages"))):
        message = as_object(item)
        role, slot = _string(message.get("role")), f"chat:{index}"
        text = _blocks_text(message.get("content"))
        call_id = _string(message.get("tool_call_id"))
        if role == "tool":
            line.add(
                slot,
                "tool_result",
                "tool_result",
                "tool",
                text,
                payload=item,
                tool_name=line.carry.tools.get(call_id, ""),
                tool_call_id=call_id,
                tool_phase="response",
            )
        elif role in _SPEAKERS and (text or not message.get("tool_calls")):
            kind, payload_type, actor = _SPEAKERS[role]
            is_turn = role == "user"
            line.add(slot, kind, payload_type, actor, text, payload=item, is_turn=is_turn)
        for order, request in enumerate(as_list(message.get("tool_calls"))):
            call = as_object(request)
            function = as_object(call.get("function")) or as_object(call.get("custom"))
            asked = {"toolCallId": call.get("id"), **function}
            asked.setdefault("arguments", function.get("input"))
            _call(line, asked, f"{slot}:call:{order}", "name", is_mirror=False)
    if not line.events:
        line.add("record", "session_meta", line.kind, "system", "")


_SPEAKERS: dict[str, tuple[EventKind, str, Actor]] = {
    "user": ("message", "user_message", "user"),
    "assistant": ("message", "agent_message", "assistant"),
    "system": ("system", "system.message", "system"),
    "developer": ("system", "system.message", "system"),
}


def _unknown(line: _Line) -> None:
    line.add("record", "unknown", line.kind, "system", text_of(line.data))


def _noted(
    kind: EventKind, *fields: str, actor: Actor = "system", status: str = "", mirror: bool = False
) -> Callable[[_Line], None]:
    """Read an event of which the named fields are worth a search."""

    def read(line: _Line) -> None:
        text = text_of([line.data.get(name) for name in fields])
        more = {
            "title": text if line.kind == "session.title_changed" else "",
            "op_status": _string(line.data.get(status)),
            "tool_call_id": _string(line.data.get("toolCallId")),
        }
        line.add("record", kind, line.kind, actor, text, is_mirror=mirror, **more)

    return read


_KINDS: dict[str, Callable[[_Line], None]] = {
    **dict.fromkeys(("assistant.turn_start", "assistant.turn_end"), _noted("progress")),
    **dict.fromkeys(("session.truncation", "session.compaction_start"), _noted("compacted_raw")),
    **dict.fromkeys(("session.usage_checkpoint", "assistant.usage"), _noted("event_msg")),
    **dict.fromkeys(("subagent.configured", "subagent.deselected"), _noted("event_msg")),
    "session.permissions_changed": _noted("event_msg"),
    **dict.fromkeys(("subagent.started", "subagent.completed", "subagent.failed"), _subagent),
    **dict.fromkeys(
        ("tool.user_requested", "tool.execution_start", "external_tool.requested"), _tool_start
    ),
    "session.start": _noted("session_meta", "context"),
    "session.resume": _noted("session_meta", "context", mirror=True),
    "session.title_changed": _noted("session_meta", "title"),
    "session.import_legacy": _import,
    "session.model_change": _noted("turn_context", "newModel"),
    "session.mode_changed": _noted("turn_context", "newMode"),
    "session.context_changed": _noted("turn_context", "cwd", "repository", "branch"),
    "session.context_cleared": _noted("event_msg", "initialMessage"),
    "session.info": _noted("system", "message", "tip", "url", status="infoType"),
    "session.warning": _noted("system", "message", "url", status="warningType"),
    "session.error": _noted("system", "message", "url", status="errorType"),
    "session.handoff": _noted("summary", "summary", "context"),
    "session.compaction_complete": _noted("summary", "summaryContent", "error"),
    "session.task_complete": _noted("summary", "summary"),
    "session.shutdown": _shutdown,
    "session.plan_changed": _noted("event_msg", status="operation"),
    "session.workspace_file_changed": _noted("event_msg", "path", status="operation"),
    "session.schedule_created": _noted("event_msg", "prompt"),
    "session.binary_asset": _noted("event_msg", "description"),
    "session.snapshot_rewind": _noted("system"),
    "user.message": _user,
    "assistant.message": _assistant,
    "assistant.reasoning": _reasoning,
    "assistant.intent": _noted("progress", "intent"),
    "abort": _noted("event_msg", status="reason"),
    "tool.execution_complete": _tool_complete,
    "tool.execution_partial_result": _noted("progress", "partialOutput", mirror=True),
    "tool.execution_progress": _noted("progress", "progressMessage"),
    "tool_search.activated": _noted("event_msg", "toolNames"),
    "skill.invoked": _noted("turn_context", "name", "path", "description", "content"),
    "subagent.selected": _noted("event_msg", "agentDisplayName"),
    "hook.start": _noted("event_msg", "hookType"),
    "hook.end": _noted("event_msg", "hookType", "output", "error"),
    "system.message": _noted("system", "content"),
    "system.notification": _noted("system", "content"),
    "permission.requested": _noted("event_msg", "permissionRequest", mirror=True),
    "permission.completed": _noted("event_msg", "result", actor="user"),
    "user_input.requested": _noted("event_msg", "question", "choices", actor="assistant"),
    "user_input.completed": _noted("event_msg", "answer", actor="user"),
    "exit_plan_mode.requested": _noted("event_msg", "summary", "planContent", actor="assistant"),
    "exit_plan_mode.completed": _noted("event_msg", "feedback", actor="user"),
}


def _blocks_text(content: object) -> str:
    """Return the texts of a content's blocks, without its pictures."""
    if not isinstance(content, list):
        return text_of(content)
    blocks = [as_object(block) for block in as_list(content)]
    return text_of([[block.get("text"), block.get("uri")] for block in blocks])


def _session_of(file: SourceFile) -> str:
    """Return the session that a path names: its folder, or in the first versions the file."""
    folder = file.path.rpartition("/")[0].rpartition("/")[2]
    return folder if folder and file.stem in {"events", "workspace"} else file.stem


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
