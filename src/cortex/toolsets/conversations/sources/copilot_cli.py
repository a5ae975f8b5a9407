"""Copilot CLI (`~/.copilot/session-state/*/events.jsonl`): one event of the session a line.

What each of them says is in copilot_events.py.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cortex.toolsets.conversations.models import Carry, Link, Reading
from cortex.toolsets.conversations.sources.copilot_events import Line, read_event
from cortex.toolsets.conversations.sources.copilot_legacy import read_import
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_json,
    as_object,
    name_of,
    parse_moment,
    record_key,
)
from cortex.toolsets.conversations.sources.telling import Telling


class CopilotCliReader:
    harness = "copilot-cli"
    provider = "github"

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        kind = name_of(record.get("type")) or "unknown"
        data = as_object(record.get("data")) or ({} if "data" in record else dict(record))
        _learn(kind, data, file, carry)
        timestamp_ms, bad_timestamp = parse_moment(record.get("timestamp"))
        item_id = name_of(record.get("id"))
        started_by = name_of(data.get("parentToolCallId"))
        agent = name_of(record.get("agentId")) or started_by
        line = Line(
            session_id=carry.session_id,
            item_id=item_id,
            model=name_of(data.get("model")) or carry.model,
            agent_label=carry.extra.get(f"agent:{agent}", agent),
            is_substream=bool(agent),
            kind=kind,
            data=data,
            carry=carry,
            agent=agent,
        )
        if kind == "session.import_legacy":
            read_import(line)
        else:
            read_event(line)
        slot, parent = line.events[0].slot, name_of(record.get("parentId"))
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
        session_id = fields.get("id") or _session_of(file)
        if title := fields.get("name") or fields.get("summary", ""):
            told = Telling(session_id=session_id)
            payload = as_json(fields)
            told.add(
                "record",
                "session_meta",
                "workspace",
                "system",
                title,
                title=title,
                payload_json=payload,
            )
            moment = parse_moment(fields.get("updated_at") or fields.get("created_at"))[0]
            yield Reading(
                session_id=session_id,
                key="workspace",
                timestamp_ms=moment,
                record_type="workspace",
                cwd=fields.get("cwd", ""),
                events=tuple(told.events),
            )


def _learn(kind: str, data: dict[str, Any], file: SourceFile, carry: Carry) -> None:
    """Keep what later events of the session do not say again."""
    if kind == "session.start":
        carry.session_id = name_of(data.get("sessionId")) or carry.session_id
    carry.session_id = carry.session_id or _session_of(file)
    if kind in {"session.start", "session.resume", "session.context_changed"}:
        context = as_object(data.get("context")) or data
        carry.cwd = name_of(context.get("cwd")) or carry.cwd
    chosen = name_of(data.get("newModel")) or name_of(data.get("selectedModel"))
    carry.model = chosen or carry.model


def _session_of(file: SourceFile) -> str:
    """Return the session that a path names: its folder, or in the first versions the file."""
    folder = file.path.rpartition("/")[0].rpartition("/")[2]
    return folder if folder and file.stem in {"events", "workspace"} else file.stem
