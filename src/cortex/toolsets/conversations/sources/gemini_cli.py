"""Gemini CLI (`~/.gemini/tmp/*/chats`): one JSON document, or since 0.40 a journal of changes.

The journal says a message again whenever it grows, so both are read whole and folded by message.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson

from cortex.toolsets.conversations.models import Actor, Event, EventKind, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.reader import (
    MAX_TEXT_CHARS,
    SourceFile,
    as_count,
    as_json,
    as_list,
    as_object,
    fingerprint,
    name_of,
    parse_moment,
    text_of,
)

# What the client says in a person's place: the surroundings, a hook's words, a nudge to go on.
_INJECTED = ("<session_context>", "<hook_context>")
_NUDGES = frozenset({"Please continue.", "System: Please continue."})
_FILES_ADDED = "--- Content from referenced files ---"
_FAILED = frozenset({"error", "failed", "cancelled"})
_FINAL = _FAILED | {"success"}


class GeminiCliReader:
    harness = "gemini-cli"
    provider = "google"

    def read_all(self, file: SourceFile) -> Iterator[Reading]:
        journal = _Journal()
        for position, record in _records(Path(file.path).read_bytes()):
            journal.take(record, position)
        return journal.readings(file)


@dataclass(slots=True)
class _Message:
    """One message on its way to events, with what stands on each of them."""

    record: dict[str, Any]
    session_id: str
    agent_label: str
    is_substream: bool
    answered: frozenset[str]  # calls whose result stands with the call
    events: list[Event] = field(default_factory=list[Event])

    def add(
        self, slot: str, kind: EventKind, payload_type: str, actor: Actor, text: str, **fields: Any
    ) -> None:
        """Append an event; the first of a message takes its tokens."""
        self.events.append(
            Event(
                session_id=self.session_id,
                slot=slot,
                block=len(self.events),
                kind=kind,
                payload_type=payload_type,
                actor=actor,
                text=text[:MAX_TEXT_CHARS],
                item_id=name_of(self.record.get("id")),
                model=name_of(self.record.get("model")),
                is_substream=self.is_substream,
                agent_label=self.agent_label,
                usage=None if self.events else _usage(as_object(self.record.get("tokens"))),
                payload_json=as_json(fields.pop("payload", self.record)),
                **fields,
            )
        )


@dataclass(slots=True)
class _Journal:
    """What a file says in the end: its head, each message in its last form, and the rest."""

    head: dict[str, Any] = field(default_factory=dict[str, Any])
    messages: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rest: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def take(self, record: dict[str, Any], position: int) -> None:
        if isinstance(record.get("$set"), dict):
            self._learn(record["$set"])
        elif "$rewindTo" in record:
            self.rest[_place(record, position)] = record
        elif "type" in record or isinstance(record.get("id"), str):
            self.messages[_key(record, position)] = record
        elif "sessionId" in record:
            self._learn(record)
        else:
            self.rest[_place(record, position)] = record

    def _learn(self, fields: dict[str, Any]) -> None:
        for position, message in enumerate(as_list(fields.get("messages"))):
            if isinstance(message, dict):
                told = cast("dict[str, Any]", message)
                # A restated history may be shortened: what a record of its own said stays.
                self.messages.setdefault(_key(told, position), told)
        self.head.update((name, fields[name]) for name in fields if name != "messages")

    def readings(self, file: SourceFile) -> Iterator[Reading]:
        own_id = name_of(self.head.get("sessionId")) or file.stem
        is_substream = self.head.get("kind") == "subagent"
        parent = _parent_of(file.path) if is_substream else ""
        directories = as_list(self.head.get("directories"))
        cwd = _project_root(file.path) or name_of(directories[0] if directories else "")
        about = (parent or own_id, own_id if is_substream else "", is_substream)
        answered = _answered(self.messages)
        # Subagents share their parent's session, and the ids of some messages with it.
        prefix = f"{own_id}/" if parent else ""

        def reading(key: str, moment: object, record: dict[str, Any], kind: str) -> Reading:
            message = _Message(record, *about, answered)
            _MESSAGES.get(kind, _unknown)(message)
            if not message.events:
                _unknown(message)
            timestamp_ms, bad_timestamp = parse_moment(moment)
            return Reading(
                session_id=about[0],
                key=prefix + key,
                timestamp_ms=timestamp_ms,
                record_type=kind,
                cwd=cwd,
                events=tuple(message.events),
                links=(Link(message.events[0].slot, "subagent_parent", parent),) if parent else (),
                bad_timestamp=bad_timestamp,
            )

        yield reading("session", self.head.get("startTime"), self.head, "session")
        for key, record in self.messages.items():
            kind = name_of(record.get("type")) or "unknown"
            yield reading(key, record.get("timestamp"), record, kind)
        for key, record in self.rest.items():
            kind = "rewind" if "$rewindTo" in record else "unknown"
            yield reading(key, self.head.get("startTime"), record, kind)


def _session(message: _Message) -> None:
    title = name_of(message.record.get("summary"))
    more = text_of([message.record.get("memoryScratchpad"), message.record.get("directories")])
    text = "\n".join(filter(None, [title, more]))
    message.add("record", "session_meta", "session", "system", text, title=title)


def _user(message: _Message) -> None:
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
        message.add("context", "turn_context", "injected_context", "system", context, payload=added)
    for index, part in enumerate(parts):
        _tool_part(message, part, index)


def _gemini(message: _Message) -> None:
    record = message.record
    parts = parts_of(record.get("content"))
    thoughts = as_list(record.get("thoughts"))
    for index, thought in enumerate(thoughts):
        said = text_of([as_object(thought).get(name) for name in ("subject", "description")])
        message.add(f"thought:{index}", "reasoning", "thought", "assistant", said, payload=thought)
    if not thoughts and (said := _spoken(parts, thought=True)):
        message.add("thought", "reasoning", "thought", "assistant", said)
    calls = as_list(record.get("toolCalls"))
    text = _spoken(parts)
    if text or not (calls or message.events or any("functionCall" in part for part in parts)):
        message.add("text", "message", "agent_message", "assistant", text, payload=_said(record))
    for index, call in enumerate(calls):
        _tool_call(message, as_object(call), index)
    known = {name_of(as_object(call).get("id")) for call in calls}
    for index, part in enumerate(parts):
        if name_of(as_object(part.get("functionCall")).get("id")) not in known:
            _tool_part(message, part, index)


def _tool_call(message: _Message, call: dict[str, Any], index: int) -> None:
    call_id, status = name_of(call.get("id")), name_of(call.get("status"))
    named = {"tool_name": name_of(call.get("name")), "tool_call_id": call_id, "op_status": status}
    asked = {name: value for name, value in call.items() if not name.startswith("result")}
    # The client names what it asks in words (`description`); an agent's call names the agent.
    text = joined([text_of(call.get(name)) for name in ("args", "description", "agentId")])
    message.add(
        f"call:{index}",
        "tool_call",
        "tool_use",
        "assistant",
        text,
        payload=asked,
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
            payload={name: value for name, value in call.items() if name not in ("args", "name")},
            tool_phase="response",
            tool_error=status in _FAILED or is_failure(results),
            **named,
        )


def _tool_part(message: _Message, part: dict[str, Any], index: int) -> None:
    """Add a call or a result that stands among the parts; the result may stand elsewhere too."""
    if isinstance(part.get("functionCall"), dict):
        call = part["functionCall"]
        message.add(
            f"part:{index}",
            "tool_call",
            "tool_use",
            "assistant",
            text_of(call.get("args")),
            payload=part,
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
            payload=part,
            tool_name=name_of(response.get("name")),
            tool_call_id=call_id,
            tool_phase="response",
            tool_error=failed,
            op_status="error" if failed else "success",
            is_mirror=call_id in message.answered,
        )


def _noted(message: _Message) -> None:
    kind = name_of(message.record.get("type")) or "rewind"
    text = _spoken(parts_of(message.record.get("content")))
    message.add("record", "system", kind, "system", text, op_status=kind)


def _unknown(message: _Message) -> None:
    kind = name_of(message.record.get("type")) or "unknown"
    hidden = ("id", "timestamp", "type")
    said = [value for name, value in message.record.items() if name not in hidden]
    message.add("record", "unknown", kind, "system", text_of(said))


_MESSAGES: dict[str, Callable[[_Message], None]] = {
    "session": _session,
    "user": _user,
    "gemini": _gemini,
    "info": _noted,
    "warning": _noted,
    "error": _noted,
    "rewind": _noted,
}


def parts_of(content: object) -> list[dict[str, Any]]:
    """Return the parts of a content, which may be one string or one part as well."""
    items = cast("list[object]", content) if isinstance(content, list) else [content]
    texts = ({"text": item} if isinstance(item, str) else as_object(item) for item in items)
    return [part for part in texts if part]


def split_prompt(
    parts: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tell what a person wrote from the files that the client put after it."""
    for index, part in enumerate(parts):
        if index and name_of(part.get("text")).lstrip().startswith(_FILES_ADDED):
            return parts[:index], parts[index:]
    return parts, []


def result_text(parts: list[dict[str, Any]]) -> str:
    """Return what a tool answered."""
    answers = [as_object(part.get("functionResponse")).get("response") for part in parts]
    return text_of([answers, [part.get("text") for part in parts]])


def is_failure(parts: list[dict[str, Any]]) -> bool:
    """Tell whether a tool answered with an error."""
    answers = (as_object(part.get("functionResponse")).get("response") for part in parts)
    return any(bool(as_object(answer).get("error")) for answer in answers)


def display_texts(display: object) -> list[str]:
    """Return what the client showed of a result; of a changed file the change, not the file."""
    if not isinstance(display, dict):
        return [text_of(display)]
    hidden = ("type", "originalContent", "newContent", "diffStat", "status")
    shown = cast("dict[str, Any]", display)
    return [text_of(value) for name, value in shown.items() if name not in hidden]


def joined(texts: list[str]) -> str:
    """Return texts below each other, without those that an earlier one holds."""
    kept = ""
    for text in texts:
        if text.strip() and text.strip() not in kept:
            kept = f"{kept}\n{text}" if kept else text
    return kept


def _spoken(parts: list[dict[str, Any]], *, thought: bool = False) -> str:
    return text_of([part.get("text") for part in parts if bool(part.get("thought")) is thought])


def _said(record: dict[str, Any]) -> dict[str, Any]:
    """Return a message without what its other events say."""
    return {name: value for name, value in record.items() if name not in ("toolCalls", "thoughts")}


def _usage(tokens: dict[str, Any]) -> TokenUsage | None:
    thoughts, cached = as_count(tokens.get("thoughts")), as_count(tokens.get("cached"))
    asked = as_count(tokens.get("input")) + as_count(tokens.get("tool"))
    answered = as_count(tokens.get("output")) + thoughts
    if not (asked or answered):
        return None
    return TokenUsage(max(0, asked - cached), answered, cached, 0, thoughts)


def _records(raw: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return the objects of a file: one document, or one a line; a line half written is left."""
    document = _parsed(raw)
    lines = [_parsed(line) for line in raw.splitlines()] if document is None else [document]
    for position, record in enumerate(lines):
        if isinstance(record, dict):
            yield position, cast("dict[str, Any]", record)


def _parsed(raw: bytes) -> object:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _key(message: dict[str, Any], position: int) -> str:
    native_id = message.get("id")
    return f"id:{native_id}" if isinstance(native_id, str) else f"by:{_place(message, position)}"


def _place(record: dict[str, Any], position: int) -> str:
    return f"line:{position}:{fingerprint(as_json(record).encode())}"


def _answered(messages: dict[str, dict[str, Any]]) -> frozenset[str]:
    calls = (as_object(c) for m in messages.values() for c in as_list(m.get("toolCalls")))
    return frozenset(name_of(call.get("id")) for call in calls if call.get("result"))


def _parent_of(path: str) -> str:
    """Return the session in whose folder a subagent's file lies."""
    chats, _, parent = path.rpartition("/")[0].rpartition("/")
    return parent if chats.endswith("/chats") else ""


def _project_root(path: str) -> str:
    """Return the project's folder, which a small file beside the chats names."""
    project, found, _ = path.rpartition("/chats/")
    try:
        return Path(project, ".project_root").read_text("utf-8", "replace").strip() if found else ""
    except OSError:
        return ""
