"""The items of Codex: messages, reasoning, calls and outputs, as the model saw them.

They are the one account that every version writes; events that say the same again are mirrors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Actor, Carry, Event, EventKind
from cortex.toolsets.conversations.sources.reader import (
    MAX_TEXT_CHARS,
    as_list,
    as_object,
    name_of,
    remember_tool,
    text_of,
)

# How texts begin that Codex puts in under the role of the user, newest and oldest clients.
_CONTEXT = (
    "# AGENTS.md instructions",
    "<INSTRUCTIONS",
    "<codex_internal_context",
    "<collaboration_mode",
    "<environment_context",
    "<external_",
    "<goal_context",
    "<hook_prompt",
    "<model_switch",
    "<permissions instructions",
    "<recommended_plugins",
    "<skill",
    "<subagent_notification",
    "<turn_aborted",
    "<user_action",
    "<user_instructions",
    "<user_shell_command",
)
# Ids of calls that an event told to have failed, in `Carry.extra`.
FAILED_CALLS = "failed"
_EXIT_MARKS = ("Process exited with code ", "Exit code: ")
_FAILURES = (
    "apply_patch verification failed",
    "execution error:",
    "failed to parse function arguments",
    "unsupported call:",
)
_BAD_STATUS = frozenset({"failed", "declined", "error", "incomplete"})


@dataclass(slots=True)
class Line:
    """One record on its way to events, with what stands on each of them."""

    record: Mapping[str, Any]
    payload: dict[str, Any]
    carry: Carry
    session_id: str
    agent_label: str
    is_mirror: bool = False
    slot: str = "record"
    block: int = 0

    def event(
        self,
        kind: EventKind,
        payload_type: str,
        actor: Actor,
        text: str,
        *,
        is_mirror: bool = False,
        **fields: Any,
    ) -> Event:
        """Return an event in the present slot."""
        return Event(
            session_id=self.session_id,
            slot=self.slot,
            block=self.block,
            kind=kind,
            payload_type=payload_type,
            actor=actor,
            text=text[:MAX_TEXT_CHARS],
            model=self.carry.model,
            is_substream=bool(self.agent_label),
            is_mirror=is_mirror or self.is_mirror,
            agent_label=self.agent_label,
            **fields,
        )


def read_item(line: Line, item: dict[str, Any]) -> Event:
    """Return what one item says; it may stand in a record, alone, or in a compacted history."""
    return ITEMS.get(name_of(item.get("type")), _unknown)(line, item)


def _message(line: Line, item: dict[str, Any]) -> Event:
    role, content = item.get("role", "assistant"), item.get("content")
    text = content_text(content)
    kind: EventKind = "message"
    payload_type, is_turn, actor = "message", False, "assistant"
    if role == "user" and not _is_context(item, content):
        actor = "user"
        is_turn = bool(content) and not (line.is_mirror or line.agent_label)
    elif role != "assistant":
        kind, payload_type, actor = "system", "injected_context", "system"
        line.carry.cwd = line.carry.cwd or _stated_cwd(text)
    return line.event(
        kind,
        payload_type,
        actor,
        text,
        item_id=name_of(item.get("id")),
        op_status=name_of(item.get("phase")),
        is_turn=is_turn,
    )


def _reasoning(line: Line, item: dict[str, Any]) -> Event:
    said = [content_text(item.get("summary")), content_text(item.get("content"))]
    text = "\n".join(filter(None, said))
    item_id = name_of(item.get("id"))
    return line.event("reasoning", "reasoning", "assistant", text, item_id=item_id)


def _agent_message(line: Line, item: dict[str, Any]) -> Event:
    text = content_text(item.get("content"))
    item_id = name_of(item.get("id"))
    return line.event("message", "agent_message", "assistant", text, item_id=item_id)


def _compaction(line: Line, item: dict[str, Any]) -> Event:
    return line.event("compacted_raw", name_of(item.get("type")), "system", "")


def _snapshot(line: Line, item: dict[str, Any]) -> Event:
    return line.event("file_history_snapshot", name_of(item.get("type")), "system", "")


def _unknown(line: Line, item: dict[str, Any]) -> Event:
    text = content_text(item.get("content")) or name_of(item.get("text"))
    payload_type = name_of(item.get("type")) or "unknown"
    return line.event("unknown", payload_type, "system", text)


def _call(field: str, tool: str = "") -> Callable[[Line, dict[str, Any]], Event]:
    """Read a call whose input stands in `field`; `tool` names it where the item does not."""

    def read(line: Line, item: dict[str, Any]) -> Event:
        call_id = name_of(item.get("call_id")) or name_of(item.get("id"))
        name = _tool_name(item) or tool
        remember_tool(line.carry, call_id, name)
        return line.event(
            "tool_call",
            name_of(item.get("type")),
            "assistant",
            _input_text(item.get(field)),
            item_id=name_of(item.get("id")),
            tool_name=name,
            tool_call_id=call_id,
            tool_phase="request",
            tool_error=is_failure(item),
            op_status=name_of(item.get("status")),
        )

    return read


def _output(line: Line, item: dict[str, Any]) -> Event:
    call_id = name_of(item.get("call_id"))
    output = item.get("output")
    text, exit_code = _output_text(output)
    if "tools" in item:
        text = text_of([as_object(tool).get("name") for tool in as_list(item["tools"])])
    is_error = (
        is_failure(item)
        or is_failure(as_object(output))
        or (exit_code or 0) != 0
        or text.startswith(_FAILURES)
        or call_id in line.carry.extra.get(FAILED_CALLS, "").split()
    )
    status = name_of(item.get("status"))
    return line.event(
        "tool_result",
        name_of(item.get("type")),
        "tool",
        text,
        item_id=name_of(item.get("id")),
        tool_name=line.carry.tools.get(call_id, "") or _tool_name(item),
        tool_call_id=call_id,
        tool_phase="response",
        tool_error=is_error,
        op_status=status or ("failed" if is_error else "completed"),
    )


ITEMS: dict[str, Callable[[Line, dict[str, Any]], Event]] = {
    "message": _message,
    "agent_message": _agent_message,
    "reasoning": _reasoning,
    "function_call": _call("arguments"),
    "custom_tool_call": _call("input"),
    "local_shell_call": _call("action", "shell"),
    "tool_search_call": _call("arguments", "tool_search"),
    "web_search_call": _call("action", "web_search"),
    "image_generation_call": _call("revised_prompt", "image_generation"),
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "local_shell_call_output": _output,
    "tool_search_output": _output,
    "compaction": _compaction,
    "compaction_summary": _compaction,
    "context_compaction": _compaction,
    "ghost_snapshot": _snapshot,
}


def is_failure(outcome: Mapping[str, Any]) -> bool:
    """Say whether a record tells of a failure, in any of the ways Codex has had."""
    exit_code = outcome.get("exit_code")
    return (
        outcome.get("success") is False
        or outcome.get("isError") is True
        or outcome.get("is_error") is True
        or name_of(outcome.get("status")) in _BAD_STATUS
        or (isinstance(exit_code, int) and exit_code != 0)
        or "Err" in outcome
    )


def content_text(content: object) -> str:
    """Return the texts of content items, in order; pictures have none."""
    if isinstance(content, str):
        return content
    texts = [name_of(item) or name_of(as_object(item).get("text")) for item in as_list(content)]
    return "\n".join(filter(None, texts))


def _tool_name(item: dict[str, Any]) -> str:
    name, namespace = name_of(item.get("name")), name_of(item.get("namespace"))
    return f"{namespace.rstrip('_')}__{name}" if namespace and name else name


def _input_text(value: object) -> str:
    """Return the values of a call's input; arguments are JSON inside a string."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    if isinstance(value, dict):
        value = {name: item for name, item in as_object(value).items() if name != "type"}
    return text_of(value)


def _output_text(output: object) -> tuple[str, int | None]:
    """Return an output's text and, where it tells it, the exit code of its command."""
    if isinstance(output, str):
        if output.startswith('{"output":'):
            try:
                said = as_object(orjson.loads(output))
            except orjson.JSONDecodeError:
                return output, None
            code = as_object(said.get("metadata")).get("exit_code")
            return content_text(said.get("output")), code if isinstance(code, int) else None
        return output, _exit_code(output)
    if isinstance(output, dict):
        return text_of(output), None
    text = content_text(output)
    return text, _exit_code(text)


def _exit_code(text: str) -> int | None:
    if not text.startswith(("Chunk ID", "Exit code", "Wall time", "Process exited")):
        return None
    head = text[:400].partition("\nOutput:")[0]
    for mark in _EXIT_MARKS:
        _, found, rest = head.partition(mark)
        code = rest.split("\n", 1)[0].strip()
        if found and code.removeprefix("-").isdecimal():
            return int(code)
    return None


def _is_context(item: dict[str, Any], content: object) -> bool:
    """Say whether Codex wrote a user's message; newest clients tell, older ones do not."""
    told = as_object(item.get("internal_chat_message_metadata_passthrough"))
    kinds = [name_of(kind) for kind in as_list(told.get("content_item_kinds"))]
    if kinds and "unknown" not in kinds:
        return not any(kind.startswith("user.") for kind in kinds)
    texts = [content] if isinstance(content, str) else as_list(content)
    said = [name_of(text) or name_of(as_object(text).get("text")) for text in texts]
    return bool(said) and all(text.lstrip().startswith(_CONTEXT) for text in said)


def _stated_cwd(context: str) -> str:
    """Return the folder that the oldest clients wrote into the context only."""
    for begin, end in (("<cwd>", "</cwd>"), ("Current working directory: ", "\n")):
        _, found, rest = context.partition(begin)
        if found:
            return rest.partition(end)[0].strip()
    return ""
