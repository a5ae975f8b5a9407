"""Gemini CLI (`~/.gemini/tmp/*/chats`): one JSON document, or since 0.40 a journal of changes.

The journal says a message again whenever it grows, so both are read whole and folded by message.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson

from cortex.toolsets.conversations.models import Link, Reading
from cortex.toolsets.conversations.sources.gemini_messages import Message, read_message
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_json,
    as_list,
    as_object,
    fingerprint,
    name_of,
    parse_moment,
)


class GeminiCliReader:
    harness = "gemini-cli"
    provider = "google"

    def read_all(self, file: SourceFile) -> Iterator[Reading]:
        journal = _Journal()
        for position, record in _records(Path(file.path).read_bytes()):
            journal.take(record, position)
        return journal.readings(file)


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
        session_id = parent or own_id
        answered = _answered(self.messages)
        # Subagents share their parent's session, and the ids of some messages with it.
        prefix = f"{own_id}/" if parent else ""

        def reading(key: str, moment: object, record: dict[str, Any], kind: str) -> Reading:
            message = Message(
                session_id=session_id,
                agent_label=own_id if is_substream else "",
                is_substream=is_substream,
                record=record,
                answered=answered,
            )
            read_message(message, kind)
            timestamp_ms, bad_timestamp = parse_moment(moment)
            return Reading(
                session_id=session_id,
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
