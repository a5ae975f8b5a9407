"""The events of Codex: what its client shows and counts. Most say again what an item says."""

from collections.abc import Callable
from typing import Any

from cortex.toolsets.conversations.models import Actor, Event, TokenUsage
from cortex.toolsets.conversations.sources.codex_items import (
    FAILED_CALLS,
    Line,
    content_text,
    is_failure,
)
from cortex.toolsets.conversations.sources.reader import (
    as_count,
    as_json,
    as_object,
    name_of,
    text_of,
)

# Events that say again what an item says: the item stands in every version's files.
_MIRRORS: dict[str, Actor] = {
    "user_message": "user",
    "agent_message": "assistant",
    "agent_reasoning": "assistant",
    "agent_reasoning_raw_content": "assistant",
    "task_complete": "assistant",
    "turn_complete": "assistant",
    "exec_command_end": "tool",
    "patch_apply_end": "tool",
    "mcp_tool_call_end": "tool",
    "web_search_end": "tool",
    "image_generation_end": "tool",
    "view_image_tool_call": "tool",
    # Items of `item_completed`.
    "UserMessage": "user",
    "AgentMessage": "assistant",
    "Reasoning": "assistant",
    "CommandExecution": "tool",
    "FileChange": "tool",
    "McpToolCall": "tool",
    "WebSearch": "tool",
    "DynamicToolCall": "tool",
    "CollabAgentToolCall": "tool",
    "ImageGeneration": "tool",
    "ImageView": "tool",
}
# Where events keep what a person would search for.
SAID = frozenset(
    (
        *("message", "text", "last_agent_message", "summary_text", "raw_content", "reason"),
        *("command", "aggregated_output", "query", "invocation", "server", "tool", "arguments"),
        *("prompt", "revised_prompt", "user_facing_hint", "review_output", "goal", "path"),
    )
)
_CALLS_KEPT = 8
_RECORDS_USAGE = "usage"


def read_event(line: Line) -> list[Event]:
    """Return what an `event_msg` tells."""
    payload = line.payload
    payload_type = name_of(payload.get("type")) or "unknown"
    if read := _EVENTS.get(payload_type):
        return [read(line)]
    return [_told(line, payload_type, payload)]


def _item_completed(line: Line) -> Event:
    item = as_object(line.payload.get("item"))
    return _told(line, name_of(item.get("type")) or "item_completed", item)


def _told(line: Line, payload_type: str, source: dict[str, Any]) -> Event:
    actor = _MIRRORS.get(payload_type, "system")
    texts = [text_of(value) for name, value in source.items() if name in SAID]
    texts.append(content_text(source.get("content")))
    is_tool, is_error, call_id = actor == "tool", False, ""
    if is_tool:
        call_id = name_of(source.get("call_id")) or name_of(source.get("id"))
        changes, result = as_object(source.get("changes")), as_object(source.get("result"))
        result = as_object(result.get("Ok")) or result
        texts += [*changes, text_of(changes)]
        texts += [content_text(result.get("content")), name_of(result.get("Err"))]
        is_error = is_failure(source) or is_failure(result)
        if is_error and call_id:
            # The output that follows is text alone, and does not always tell.
            failed = [*line.carry.extra.get(FAILED_CALLS, "").split(), call_id]
            line.carry.extra[FAILED_CALLS] = " ".join(failed[-_CALLS_KEPT:])
    return line.event(
        "event_msg",
        payload_type,
        actor,
        "\n".join(filter(None, texts)),
        is_mirror=payload_type in _MIRRORS,
        item_id=name_of(source.get("id")) or name_of(line.payload.get("turn_id")),
        tool_name=line.carry.tools.get(call_id, ""),
        tool_call_id=call_id,
        tool_phase="response" if is_tool else "",
        tool_error=is_error,
        op_status=name_of(source.get("status")),
    )


def _thread_named(line: Line) -> Event:
    title = name_of(line.payload.get("thread_name"))
    return line.event("session_meta", "thread_name_updated", "system", title, title=title)


def _token_count(line: Line) -> Event:
    info = as_object(line.payload.get("info"))
    usage = None
    if _RECORDS_USAGE not in line.carry.extra:
        usage = _usage(line, info.get("last_token_usage"), info.get("total_token_usage"))
    return line.event("event_msg", "token_count", "system", "", usage=usage)


def read_usage(line: Line) -> list[Event]:
    """Return the tokens of a `token_usage_record`, which newest clients write at each response."""
    payload = line.payload
    # From here on `token_count` says again what these records say.
    line.carry.extra[_RECORDS_USAGE] = "records"
    usage = _usage(line, payload.get("usage"), payload.get("thread_token_usage"))
    item_id = name_of(payload.get("response_id"))
    return [
        line.event("event_msg", "token_usage_record", "system", "", item_id=item_id, usage=usage)
    ]


_EVENTS: dict[str, Callable[[Line], Event]] = {
    "item_completed": _item_completed,
    "thread_name_updated": _thread_named,
    "token_count": _token_count,
}


def _usage(line: Line, said: object, total: object) -> TokenUsage | None:
    """Return the tokens of one response, once: they are told again with each change of limits."""
    usage, seen = as_object(said), as_object(total)
    mark = as_json(seen) if seen else ""
    is_told_again = bool(mark) and mark == line.carry.usage_key
    line.carry.usage_key = mark
    if is_told_again or line.is_mirror:
        return None
    sent, answered = (as_object(usage.get(f"{way}_tokens_details")) for way in ("input", "output"))
    cached = as_count(usage.get("cached_input_tokens", sent.get("cached_tokens")))
    written = as_count(usage.get("cache_write_input_tokens"))
    counted = TokenUsage(
        input=max(0, as_count(usage.get("input_tokens")) - cached - written),
        output=as_count(usage.get("output_tokens")),
        cache_read=cached,
        cache_write=written,
        reasoning=as_count(usage.get("reasoning_output_tokens", answered.get("reasoning_tokens"))),
    )
    return counted if counted != TokenUsage() else None
