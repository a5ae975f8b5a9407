"""Claude Code (`~/.claude/projects`): which record says what; messages are in claude_message.py.

Holds no state: what one record must know of earlier ones is in the `Carry`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from cortex.toolsets.conversations.models import Carry, Event, EventKind, Link, Reading
from cortex.toolsets.conversations.sources.claude_message import (
    LAST_MOMENT,
    UNREADABLE,
    Line,
    read_message,
    said,
    words,
)
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_object,
    name_of,
    parse_moment,
    record_key,
)

_ENVELOPE = UNREADABLE | frozenset(
    {"sessionId", "timestamp", "cwd", "version", "gitBranch", "userType", "entrypoint", "slug"}
    | {"parentUuid", "logicalParentUuid", "isSidechain", "requestId", "promptId", "promptSource"}
    | {"subtype", "level", "permissionMode", "parentToolUseID", "sourceToolUseID", "origin"}
    | {"sourceToolAssistantUUID", "agentName", "teamName"}
)
_LINKS: tuple[
    tuple[str, Literal["parent_uuid", "compacted_parent", "parent_event", "tool_use_id"]], ...
] = (
    ("parentUuid", "parent_uuid"),
    ("logicalParentUuid", "compacted_parent"),
    ("leafUuid", "parent_uuid"),
    ("sourceToolAssistantUUID", "parent_event"),
    ("parentToolUseID", "tool_use_id"),
    ("toolUseID", "tool_use_id"),
)
# What a subagent or a command says while it runs is written again: in its file, in the result.
_REPEATED_PROGRESS = frozenset({"agent_progress", "bash_progress", "powershell_progress"})


class ClaudeCodeReader:
    harness = "claude-code"
    provider = "anthropic"

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        record_type = name_of(record.get("type")) or "unknown"
        session_id = name_of(record.get("sessionId")) or carry.session_id
        carry.session_id = session_id = session_id or _session_of(file.path)
        carry.cwd = name_of(record.get("cwd")) or carry.cwd
        stated = record.get("timestamp") or as_object(record.get("snapshot")).get("timestamp")
        timestamp_ms, bad_timestamp = parse_moment(stated)
        if timestamp_ms:
            carry.extra[LAST_MOMENT] = str(timestamp_ms)
        is_substream = record.get("isSidechain") is True or "/subagents/" in file.path
        line = Line(
            record=record,
            carry=carry,
            session_id=session_id,
            item_id=name_of(record.get("uuid")),
            agent_label=_label(record, file.stem if is_substream else ""),
            is_substream=is_substream,
        )
        events = _RECORDS.get(record_type, _unknown)(line)
        return Reading(
            session_id=session_id,
            key=record_key(line.item_id, raw, line_no, timestamp_ms, carry),
            # Titles and the like have no moment: they are told where they stand.
            timestamp_ms=timestamp_ms or int(carry.extra.get(LAST_MOMENT, "0")),
            record_type=record_type,
            cwd=carry.cwd,
            events=tuple(events),
            links=_links(line, events[0].slot),
            bad_timestamp=bad_timestamp,
        )


def _attachment(line: Line) -> list[Event]:
    attachment = as_object(line.record.get("attachment"))
    payload_type = name_of(attachment.get("type")) or "attachment"
    if payload_type == "queued_command" and attachment.get("commandMode", "prompt") == "prompt":
        # Typed while the agent worked: no other record says it as a message.
        return [said(line, payload_type, words(attachment.get("prompt")), "user", block=-1)]
    return [line.event("system", payload_type, "system", words(attachment))]


def _system(line: Line) -> list[Event]:
    subtype = name_of(line.record.get("subtype")) or "system"
    kind: EventKind = "compacted_raw" if subtype == "compact_boundary" else "system"
    text = name_of(line.record.get("content")) or words(line.record, _ENVELOPE)
    status = name_of(line.record.get("level"))
    return [line.event(kind, subtype, "system", text, op_status=status)]


def _progress(line: Line) -> list[Event]:
    data = as_object(line.record.get("data"))
    payload_type = name_of(data.get("type")) or "progress"
    text = words(data.get("fullOutput") or data.get("output") or data)
    return [
        line.event(
            "progress",
            payload_type,
            "system",
            text,
            op_status=name_of(line.record.get("status")),
            is_mirror=payload_type in _REPEATED_PROGRESS,
        )
    ]


def _file_history(line: Line) -> list[Event]:
    files = as_object(as_object(line.record.get("snapshot")).get("trackedFileBackups"))
    return [line.event("file_history_snapshot", _type(line), "system", "\n".join(files))]


def _unknown(line: Line) -> list[Event]:
    return [line.event("unknown", _type(line), "system", words(line.record, _ENVELOPE))]


def _titled(kind: EventKind, field: str) -> Callable[[Line], list[Event]]:
    def read(line: Line) -> list[Event]:
        title = name_of(line.record.get(field))
        return [line.event(kind, _type(line), "system", title, title=title)]

    return read


def _noted(kind: EventKind, *fields: str, mirror: bool = False) -> Callable[[Line], list[Event]]:
    """Read a note that the client made for itself: the named fields are worth a search."""

    def read(line: Line) -> list[Event]:
        text = "\n".join(filter(None, [words(line.record.get(field)) for field in fields]))
        return [line.event(kind, _type(line), "system", text, is_mirror=mirror)]

    return read


_RECORDS: dict[str, Callable[[Line], list[Event]]] = {
    "user": read_message,
    "assistant": read_message,
    "attachment": _attachment,
    "system": _system,
    "progress": _progress,
    "file-history-snapshot": _file_history,
    "summary": _titled("summary", "summary"),
    "ai-title": _titled("session_meta", "aiTitle"),
    "custom-title": _titled("session_meta", "customTitle"),
    "task-summary": _noted("summary", "summary"),
    "agent-name": _noted("session_meta", "agentName"),
    "agent-setting": _noted("session_meta", "agentSetting"),
    "agent-color": _noted("session_meta"),
    "mode": _noted("session_meta"),
    "permission-mode": _noted("session_meta"),
    "tag": _noted("session_meta", "tag"),
    "pr-link": _noted("session_meta", "prRepository", "prUrl"),
    "worktree-state": _noted("session_meta", "worktreeSession"),
    # Both say a prompt that has a record of its own.
    "last-prompt": _noted("session_meta", "lastPrompt", mirror=True),
    "queue-operation": _noted("queue_operation", "content", mirror=True),
}


def _type(line: Line) -> str:
    return name_of(line.record.get("type")) or "unknown"


def _links(line: Line, slot: str) -> tuple[Link, ...]:
    links: dict[str, Link] = {}
    for field, link_type in _LINKS:
        target = line.record.get(field)
        if target and isinstance(target, str) and target not in links:
            links[target] = Link(slot, link_type, target)
    if line.is_substream and not line.record.get("parentUuid"):
        links[line.session_id] = Link(slot, "subagent_parent", line.session_id)
    return tuple(links.values())


def _label(record: Mapping[str, Any], agent_file: str) -> str:
    """Return the agent's name; a subagent without one is called by its kind or its id."""
    label = name_of(record.get("agentName"))
    if label or not agent_file:
        return label
    named = name_of(record.get("attributionAgent")) or name_of(record.get("agentId"))
    return named or (agent_file[6:] if agent_file.startswith("agent-") else "")


def _session_of(path: str) -> str:
    """Return the session that a path names: the file, or the folder of a session's subagents."""
    folder, found, _ = path.partition("/subagents/")
    return folder.rsplit("/", 1)[-1] if found else SourceFile(path).stem
