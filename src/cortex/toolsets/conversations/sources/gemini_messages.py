"""The messages of Gemini CLI: a person's own words, thoughts, answers, calls with their results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cortex.toolsets.conversations.models import TokenUsage
from cortex.toolsets.conversations.sources.gemini_parts import (
    display_texts,
    is_failure,
    joined,
    parts_of,
    result_text,
    split_prompt,
)
from cortex.toolsets.conversations.sources.reader import (
    as_count,
    as_json,
    as_list,
    as_object,
    name_of,
    text_of,
)
from cortex.toolsets.conversations.sources.telling import Telling

# What the client says in a person's place: the surroundings, a hook's words, a nudge to go on.
_INJECTED = ("<session_context>", "<hook_context>")
_NUDGES = frozenset({"Please continue.", "System: Please continue."})
_FAILED = frozenset({"error", "failed", "cancelled"})
_FINAL = _FAILED | {"success"}


@dataclass(slots=True, kw_only=True)
class Message(Telling):
    """One message on its way to events."""

    record: dict[str, Any]
    answered: frozenset[str]  # calls whose result stands with the call


def read_message(message: Message, kind: str) -> None:
    """Tell what a message says; its first event has its tokens and the whole of it."""
    message.item_id = name_of(message.record.get("id"))
    message.model = name_of(message.record.get("model"))
    message.usage = _usage(as_object(message.record.get("tokens")))
    _MESSAGES.get(kind, _unknown)(message)
    if not message.events:
        _unknown(message)
    message.events[0].payload_json = as_json(message.record)


def _session(message: Message) -> None:
    title = name_of(message.record.get("summary"))
    more = text_of([message.record.get("memoryScratchpad"), message.record.get("directories")])
    text = "\n".join(filter(None, [title, more]))
    message.add("record", "session_meta", "session", "system", text, title=title)


def _user(message: Message) -> None:
    parts = parts_of(message.record.get("content"))
    shown = _spoken(parts_of(message.record.get("displayContent")))
    own, added = split_prompt(parts)
    text, context = _spoken(own), _spoken(added)
    if shown and shown != text:
        text, context = shown, _spoken(parts)
    if text in _NUDGES or text.lstrip().startswith(_INJECTED):
        message.add("text", "turn_context", "injected_context", "system", text)
    elif text or not any("functionResponse" in part for part in parts):
        is_turn = not message.is_substream
        message.add("text", "message", "user_message", "user", text, is_turn=is_turn)
    if context:
        message.add("context", "turn_context", "injected_context", "system", context)
    for index, part in enumerate(parts):
        _tool_part(message, part, index)


def _gemini(message: Message) -> None:
    record = message.record
    parts = parts_of(record.get("content"))
    thoughts = as_list(record.get("thoughts"))
    for index, thought in enumerate(thoughts):
        said = text_of([as_object(thought).get(name) for name in ("subject", "description")])
        message.add(f"thought:{index}", "reasoning", "thought", "assistant", said)
    if not thoughts and (said := _spoken(parts, thought=True)):
        message.add("thought", "reasoning", "thought", "assistant", said)
    calls = as_list(record.get("toolCalls"))
    text = _spoken(parts)
    if text or not (calls or message.events or any("functionCall" in part for part in parts)):
        message.add("text", "message", "agent_message", "assistant", text)
    for index, call in enumerate(calls):
        _tool_call(message, as_object(call), index)
    known = {name_of(as_object(call).get("id")) for call in calls}
    for index, part in enumerate(parts):
        if name_of(as_object(part.get("functionCall")).get("id")) not in known:
            _tool_part(message, part, index)


def _tool_call(message: Message, call: dict[str, Any], index: int) -> None:
    call_id, status = name_of(call.get("id")), name_of(call.get("status"))
    named: dict[str, Any] = {
        "tool_name": name_of(call.get("name")),
        "tool_call_id": call_id,
        "op_status": status,
    }
    # The client names what it asks in words (`description`); an agent's call names the agent.
    text = joined([text_of(call.get(name)) for name in ("args", "description", "agentId")])
    message.add(
        f"call:{index}",
        "tool_call",
        "tool_use",
        "assistant",
        text,
        tool_phase="request",
        **named,
    )
    if call.get("result") or call.get("resultDisplay") or status in _FINAL:
        results = parts_of(call.get("result"))
        text = joined([result_text(results), *display_texts(call.get("resultDisplay"))])
        message.add(
            f"result:{index}",
            "tool_result",
            "tool_result",
            "tool",
            text,
            tool_phase="response",
            tool_error=status in _FAILED or is_failure(results),
            **named,
        )


def _tool_part(message: Message, part: dict[str, Any], index: int) -> None:
    """Add a call or a result that stands among the parts; the result may stand elsewhere too."""
    if isinstance(part.get("functionCall"), dict):
        call = part["functionCall"]
        message.add(
            f"part:{index}",
            "tool_call",
            "tool_use",
            "assistant",
            text_of(call.get("args")),
            tool_name=name_of(call.get("name")),
            tool_call_id=name_of(call.get("id")),
            tool_phase="request",
        )
    elif isinstance(part.get("functionResponse"), dict):
        response, call_id = part["functionResponse"], name_of(part["functionResponse"].get("id"))
        failed = is_failure([part])
        message.add(
            f"part:{index}",
            "tool_result",
            "tool_result",
            "tool",
            result_text([part]),
            tool_name=name_of(response.get("name")),
            tool_call_id=call_id,
            tool_phase="response",
            tool_error=failed,
            op_status="error" if failed else "success",
            is_mirror=call_id in message.answered,
        )


def _noted(message: Message) -> None:
    kind = name_of(message.record.get("type")) or "rewind"
    text = _spoken(parts_of(message.record.get("content")))
    message.add("record", "system", kind, "system", text, op_status=kind)


def _unknown(message: Message) -> None:
    kind = name_of(message.record.get("type")) or "unknown"
    hidden = ("id", "timestamp", "type")
    said = [value for name, value in message.record.items() if name not in hidden]
    message.add("record", "unknown", kind, "system", text_of(said))


_MESSAGES: dict[str, Callable[[Message], None]] = {
    "session": _session,
    "user": _user,
    "gemini": _gemini,
    "info": _noted,
    "warning": _noted,
    "error": _noted,
    "rewind": _noted,
}


def _spoken(parts: list[dict[str, Any]], *, thought: bool = False) -> str:
    return text_of([part.get("text") for part in parts if bool(part.get("thought")) is thought])


def _usage(tokens: dict[str, Any]) -> TokenUsage | None:
    thoughts, cached = as_count(tokens.get("thoughts")), as_count(tokens.get("cached"))
    asked = as_count(tokens.get("input")) + as_count(tokens.get("tool"))
    answered = as_count(tokens.get("output")) + thoughts
    if not (asked or answered):
        return None
    return TokenUsage(max(0, asked - cached), answered, cached, 0, thoughts)
