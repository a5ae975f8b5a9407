"""The events of Copilot CLI: who says what in them.

A call stands in the answer that asks for it and again where it starts; the first is the one kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Actor, Carry, EventKind, TokenUsage
from cortex.toolsets.conversations.sources.reader import (
    as_count,
    as_list,
    as_object,
    fingerprint,
    name_of,
    remember_tool,
    text_of,
)
from cortex.toolsets.conversations.sources.telling import Telling

_MAX_KEPT = 128
_LAST_THOUGHT = "thought"


@dataclass(slots=True, kw_only=True)
class Line(Telling):
    """One event of the agent on its way to ours."""

    kind: str
    data: dict[str, Any]
    carry: Carry
    agent: str  # the subagent that speaks, or the call that started it


def read_event(line: Line) -> None:
    """Tell what an event says; of one that nobody knows, all its texts."""
    _KINDS.get(line.kind, _unknown)(line)


def _user(line: Line) -> None:
    source = name_of(line.data.get("source"))
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
        line.add("sent", "turn_context", "transformed", "system", sent, is_mirror=True)
    for index, item in enumerate(as_list(line.data.get("attachments"))):
        slot, about = f"attachment:{index}", as_object(item)
        names = ("displayName", "title", "path", "filePath", "url", "text")
        said = text_of([about.get(name) for name in names])
        line.add(slot, "turn_context", "attachment", "user", said)


def _assistant(line: Line) -> None:
    # Only the answer's own tokens are written; several records may be chunks of one response.
    response, count = name_of(line.data.get("apiCallId")), as_count(line.data.get("outputTokens"))
    if count and not (response and f"response:{response}" in line.carry.extra):
        _remember(line.carry, f"response:{response}", "counted")
        line.usage = TokenUsage(output=count)
    if thought := text_of(line.data.get("reasoningText")):
        _thought(line, "reasoning", thought)
    requests = as_list(line.data.get("toolRequests"))
    text = text_of(line.data.get("content"))
    if text or not (requests or (line.events and line.usage is None)):
        line.add("text", "message", "agent_message", "assistant", text)
    for index, request in enumerate(requests):
        add_call(line, as_object(request), f"call:{index}", "name")


def _thought(line: Line, slot: str, text: str) -> None:
    """Add a thought; the agent writes it on its own and with the answer, in either order."""
    digest = fingerprint(text.encode("utf-8", "surrogatepass"))
    is_mirror = line.carry.extra.get(_LAST_THOUGHT) == digest
    _remember(line.carry, _LAST_THOUGHT, digest)
    line.add(slot, "reasoning", "reasoning", "assistant", text, is_mirror=is_mirror)


def _remember(carry: Carry, name: str, value: str) -> None:
    """Keep a value for the next events; the oldest are forgotten."""
    carry.extra.pop(name, None)
    carry.extra[name] = value
    while len(carry.extra) > _MAX_KEPT:
        carry.extra.pop(next(iter(carry.extra)))


def _reasoning(line: Line) -> None:
    _thought(line, "record", text_of(line.data.get("content")))


def add_call(
    line: Line, call: dict[str, Any], slot: str, name_field: str, *, is_mirror: bool = False
) -> None:
    """Tell a call and remember its tool for the result."""
    name, call_id = name_of(call.get(name_field)), name_of(call.get("toolCallId"))
    remember_tool(line.carry, call_id, name)
    line.add(
        slot,
        "tool_call",
        "tool_use",
        "user" if line.kind == "tool.user_requested" else "assistant",
        text_of([_input_of(call.get("arguments")), call.get("intentionSummary")]),
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


def _tool_start(line: Line) -> None:
    is_mirror = name_of(line.data.get("toolCallId")) in line.carry.tools
    add_call(line, line.data, "record", "toolName", is_mirror=is_mirror)


def _tool_complete(line: Line) -> None:
    call_id = name_of(line.data.get("toolCallId"))
    result, error = as_object(line.data.get("result")), as_object(line.data.get("error"))
    failed = line.data.get("success") is False or bool(error)
    texts = [text_of(result.get("content")), text_of(result.get("detailedContent"))]
    if not any(texts):
        texts = [blocks_text(result.get("contents"))]
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
        op_status=name_of(error.get("code")) or ("failed" if failed else "success"),
    )


def _subagent(line: Line) -> None:
    name = name_of(line.data.get("agentName"))
    call_id = name_of(line.data.get("toolCallId"))
    for agent in filter(None, (call_id, line.agent) if name else ()):
        _remember(line.carry, f"agent:{agent}", name)
    if name and line.agent:
        line.agent_label = name
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


def _shutdown(line: Line) -> None:
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
    status = name_of(line.data.get("shutdownType"))
    line.add("record", "event_msg", line.kind, "system", text, op_status=status)


def _unknown(line: Line) -> None:
    line.add("record", "unknown", line.kind, "system", text_of(line.data))


def _noted(
    kind: EventKind, *fields: str, actor: Actor = "system", status: str = "", mirror: bool = False
) -> Callable[[Line], None]:
    """Read an event of which the named fields are worth a search."""

    def read(line: Line) -> None:
        text = text_of([line.data.get(name) for name in fields])
        more = {
            "title": text if line.kind == "session.title_changed" else "",
            "op_status": name_of(line.data.get(status)),
            "tool_call_id": name_of(line.data.get("toolCallId")),
        }
        line.add("record", kind, line.kind, actor, text, is_mirror=mirror, **more)

    return read


_KINDS: dict[str, Callable[[Line], None]] = {
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


def blocks_text(content: object) -> str:
    """Return the texts of a content's blocks, without its pictures."""
    if not isinstance(content, list):
        return text_of(content)
    blocks = [as_object(block) for block in as_list(content)]
    return text_of([[block.get("text"), block.get("uri")] for block in blocks])
