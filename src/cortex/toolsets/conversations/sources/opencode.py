"""opencode: its database (sessions, messages, parts) and what `opencode export` writes.

Both give the same keys for the same records. opencode keeps rows in their latest state, so a
record that grew is read again under its own key.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Reading
from cortex.toolsets.conversations.sources.opencode_parts import (
    Message,
    Record,
    read_messages,
    read_session,
)
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_count,
    as_json,
    as_list,
    as_object,
)
from cortex.toolsets.conversations.sources.sqlite_file import (
    ForeignDatabase,
    Look,
    SourceUnreadable,
    json_of,
    word_of,
)

_IN_GIVEN = "IN (SELECT value FROM json_each(?))"


class OpencodeReader:
    """Reads `opencode*.db` and exported `*.json`."""

    harness = "opencode"
    provider = "opencode"

    def position(self, file: SourceFile) -> str:
        """Return where the source stands; taken before a read, it is the next read's `since`."""
        if file.path.endswith(".json"):
            return ""
        with ForeignDatabase(file.path) as database:
            return str(database.read(_newest_ms))

    def read_all(self, file: SourceFile, since: str = "") -> Iterator[Reading]:
        """Return every record, or with `since` those of messages that changed from there on."""
        if file.path.endswith(".json"):
            return _read_export(file.path)
        return _read_database(file.path, int(since) if since.isdecimal() else 0)


def _read_export(path: str) -> Iterator[Reading]:
    try:
        document = as_object(json_of(Path(path).read_bytes()))
    except OSError as error:
        raise SourceUnreadable(path, error.strerror or "cannot be opened") from error
    info = as_object(document.get("info"))
    if not info.get("id") or not isinstance(document.get("messages"), list):
        raise SourceUnreadable(path, "not what `opencode export` writes")
    messages: list[Message] = []
    for place, entry in enumerate(map(as_object, as_list(document["messages"]))):
        message = _exported(as_object(entry.get("info")), f"{info['id']}:{place}")
        parts = as_list(entry.get("parts"))
        messages.append(
            (message, [_exported(as_object(p), f"{message.id}:{n}") for n, p in enumerate(parts)])
        )
    yield read_session(info)
    yield from read_messages(info, messages)


def _exported(data: dict[str, Any], place: str) -> Record:
    return Record(word_of(data.get("id")) or place, data, None, as_json(data))


def _read_database(path: str, after_ms: int) -> Iterator[Reading]:
    with ForeignDatabase(path) as database:
        changed = database.read(lambda look: _changed(look, after_ms)) if after_ms else None
        for info, updated_ms in database.read(_sessions):
            session_id = word_of(info["id"])
            if changed is None or updated_ms >= after_ms:
                yield read_session(info)
            given = None if changed is None else changed.get(session_id, [])
            if given is None or given:
                messages, projected = database.read(
                    lambda look, s=session_id, g=given: (_messages(look, s, g), _projected(look, s))
                )
                yield from read_messages(info, messages)
                yield from read_messages(info, projected, is_mirror=bool(messages))


def _newest_ms(look: Look) -> int:
    newest = 0
    for table in ("session", "message", "part", "session_message"):
        if look.columns(table) and "time_updated" not in look.columns(table):
            return 0  # a version without these times: every read is a whole one
        rows = look.select(table, ["time_updated"], "ORDER BY 1 DESC LIMIT 1")
        newest = max(newest, *(as_count(value) for (value,) in rows), 0)
    return newest


def _changed(look: Look, after_ms: int) -> dict[str, list[str]]:
    """Return, by session, the messages that changed or have a part that did."""
    found: dict[str, list[str]] = {}
    for table, message in (("message", "id"), ("part", "message_id"), ("session_message", "id")):
        columns = ("session_id", message)
        if look.columns(table) >= {*columns, "time_updated"}:
            # opencode has no index on these times; ids and times stand before the long column.
            rows = look.select(table, columns, "WHERE time_updated >= ? GROUP BY 1, 2", after_ms)
            for session_id, message_id in rows:
                found.setdefault(word_of(session_id), []).append(word_of(message_id))
    return found


def _sessions(look: Look) -> list[tuple[dict[str, Any], int]]:
    columns = ("time_created", "id", "parent_id", "directory", "title", "agent", "model")
    found: dict[str, tuple[dict[str, Any], int]] = {}
    for row in look.select("session", (*columns, "time_updated"), "ORDER BY 1, 2"):
        info: dict[str, Any] = {"id": word_of(row[1]), "parentID": row[2], "directory": row[3]}
        info |= {"title": row[4], "agent": row[5], "model": json_of(row[6])}
        info["time"] = {"created": row[0]}
        found[info["id"]] = info, as_count(row[7])
    for table in ("message", "part", "session_message"):
        for (value,) in look.select(table, ["session_id"], "GROUP BY 1"):
            found.setdefault(word_of(value), ({"id": word_of(value)}, 0))
    return list(found.values())


def _messages(look: Look, session_id: str, given: list[str] | None) -> list[Message]:
    """Return a session's messages in order, each with its parts; with `given` only those."""
    columns = ("time_created", "id", "data")
    if not look.columns("part") >= {"session_id", "message_id"}:
        return []
    ids = None if given is None else orjson.dumps(given).decode()
    where = "WHERE session_id = ?" if ids is None else f"WHERE session_id = ? AND id {_IN_GIVEN}"
    values = (session_id,) if ids is None else (session_id, ids)
    found: dict[str, Message] = {}
    if "session_id" in look.columns("message"):
        for row in look.select("message", columns, f"{where} ORDER BY 1, 2", *values):
            found[word_of(row[1])] = _stored(row), []
    where = where.replace("AND id", "AND message_id")
    for *row, message_id in look.select(
        "part", (*columns, "message_id"), f"{where} ORDER BY 2", *values
    ):
        orphan = Record(word_of(message_id), {}, None, "")
        found.setdefault(word_of(message_id), (orphan, []))[1].append(_stored(row))
    return list(found.values())


def _stored(row: Sequence[Any]) -> Record:
    made, record_id, data = row[:3]
    payload = word_of(data)
    return Record(word_of(record_id), as_object(json_of(payload)), made, payload)


def _projected(look: Look, session_id: str) -> list[Message]:
    """Return the newer table's messages, whose content stands in one row, in the same shape."""
    columns = ("time_created", "id", "data", "type", "seq")
    if not look.columns("session_message") >= {"session_id", "seq"}:
        return []
    found: list[Message] = []
    for row in look.select(
        "session_message", columns, "WHERE session_id = ? ORDER BY 5", session_id
    ):
        record, kind = _stored(row), word_of(row[3])
        data = record.data
        if kind == "assistant":
            blocks = [as_object(block) for block in as_list(data.get("content"))]
        elif kind in {"user", "synthetic"}:
            blocks = [{"type": "text", "text": data.get("text"), "synthetic": kind == "synthetic"}]
        else:
            blocks = [{**data, "type": kind}]
        parts = [
            Record(f"{record.id}:{place}", block, None, as_json(block))
            for place, block in enumerate(blocks)
        ]
        role = "assistant" if kind == "assistant" else "user"
        found.append((Record(record.id, {**data, "role": role}, record.made, ""), parts))
    return found
