"""A session of Copilot CLI's first versions, as the next ones took it over: a single event."""

from cortex.toolsets.conversations.models import Actor, EventKind
from cortex.toolsets.conversations.sources.copilot_events import Line, add_call, blocks_text
from cortex.toolsets.conversations.sources.reader import as_list, as_object, name_of

_SPEAKERS: dict[str, tuple[EventKind, str, Actor]] = {
    "user": ("message", "user_message", "user"),
    "assistant": ("message", "agent_message", "assistant"),
    "system": ("system", "system.message", "system"),
    "developer": ("system", "system.message", "system"),
}


def read_import(line: Line) -> None:
    """Tell the messages, calls and results of the session that was taken over."""
    session = as_object(line.data.get("legacySession"))
    for index, item in enumerate(as_list(session.get("chatMessages"))):
        message = as_object(item)
        role, slot = name_of(message.get("role")), f"chat:{index}"
        text = blocks_text(message.get("content"))
        call_id = name_of(message.get("tool_call_id"))
        if role == "tool":
            line.add(
                slot,
                "tool_result",
                "tool_result",
                "tool",
                text,
                tool_name=line.carry.tools.get(call_id, ""),
                tool_call_id=call_id,
                tool_phase="response",
            )
        elif role in _SPEAKERS and (text or not message.get("tool_calls")):
            kind, payload_type, actor = _SPEAKERS[role]
            is_turn = role == "user"
            line.add(slot, kind, payload_type, actor, text, is_turn=is_turn)
        for order, request in enumerate(as_list(message.get("tool_calls"))):
            call = as_object(request)
            function = as_object(call.get("function")) or as_object(call.get("custom"))
            asked = {"toolCallId": call.get("id"), **function}
            asked.setdefault("arguments", function.get("input"))
            add_call(line, asked, f"{slot}:call:{order}", "name")
    if not line.events:
        line.add("record", "session_meta", line.kind, "system", "")
