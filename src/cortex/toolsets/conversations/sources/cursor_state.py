"""Cursor's `state.vscdb`: conversations (`composerData:`) and their bubbles (`bubbleId:`)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cortex.toolsets.conversations.models import Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.reader import (
    SourceFile,
    as_count,
    as_json,
    as_list,
    as_object,
    parse_moment,
    text_of,
)
from cortex.toolsets.conversations.sources.sqlite_file import (
    ForeignDatabase,
    Look,
    json_of,
    word_of,
)

_TABLE = "cursorDiskKV"
# SQLite gives the number of a deleted last row again, and a bubble may be rewritten in its place
# a while after its conversation: both are found by reading a little of the known once more.
_ROWS_AGAIN = 64
_MS_AGAIN = 600_000
_DONE = ("completed", "error", "cancelled")


@dataclass(frozen=True, slots=True)
class _Composer:
    """A conversation as its own row tells it, without the bubbles."""

    id: str
    data: dict[str, Any]
    row: int

    @property
    def cwd(self) -> str:
        uri = as_object(as_object(self.data.get("workspaceIdentifier")).get("uri"))
        return word_of(uri.get("fsPath") or uri.get("path"))

    @property
    def parent(self) -> str:
        below = as_object(self.data.get("subagentInfo")).get("parentComposerId")
        return word_of(below or self.data.get("parentComposerId"))

    @property
    def model(self) -> str:
        return word_of(as_object(self.data.get("modelConfig")).get("modelName"))

    @property
    def updated_ms(self) -> int:
        return as_count(self.data.get("lastUpdatedAt") or self.data.get("createdAt"))

    def event(self, slot: str, payload: object, **said: Any) -> Event:
        """Make an event of this conversation with what all of them have in common."""
        common: dict[str, Any] = {
            "session_id": self.id,
            "slot": slot,
            "block": 0,
            "model": self.model,
            "is_substream": bool(self.parent),
            "agent_label": "subagent" if self.parent else "",
            "payload_json": payload if isinstance(payload, str) else as_json(payload),
        }
        return Event(**(common | said))

    def reading(
        self, key: str, at_ms: int, record_type: str, events: tuple[Event, ...], bad: str
    ) -> Reading:
        """Make the reading of one row, with its links."""
        links = [
            Link(event.slot, "tool_use_id", event.tool_call_id)
            for event in events
            if event.kind == "tool_result" and event.tool_call_id
        ]
        if self.parent and key == self.id:
            links.append(Link("composer", "subagent_parent", self.parent))
        return Reading(
            session_id=self.id,
            key=f"id:{key}",
            timestamp_ms=at_ms,
            record_type=record_type,
            cwd=self.cwd,
            events=events,
            links=tuple(links),
            bad_timestamp=bad,
        )


class CursorStateReader:
    """Reads the database of Cursor's windows, one session for each conversation."""

    harness = "cursor"
    provider = "cursor"

    def position(self, file: SourceFile) -> str:
        """Return where the source stands; taken before a read, it is the next read's `since`."""
        with ForeignDatabase(file.path) as database:
            row = database.read(_last_row)
            newest = max((c.updated_ms for c in database.read(_composers)), default=0)
        return f"{row}:{newest}"

    def read_all(self, file: SourceFile, since: str = "") -> Iterator[Reading]:
        """Return every record, or with `since` those of conversations that changed from there.

        Cursor replaces rows, which gives them new numbers; a whole read now and then is still
        needed, for compacting a database numbers its rows anew.
        """
        row, _, moment = since.partition(":")
        after = (int(row), int(moment)) if row.isdecimal() and moment.isdecimal() else (0, 0)
        with ForeignDatabase(file.path) as database:
            if database.read(_last_row) < after[0]:
                after = (0, 0)
            changed = database.read(lambda look: _changed(look, after[0] - _ROWS_AGAIN))
            for composer in sorted(database.read(_composers), key=lambda c: (c.updated_ms, c.id)):
                is_new = composer.row > after[0] - _ROWS_AGAIN or composer.id in changed
                if is_new or composer.updated_ms >= after[1] - _MS_AGAIN:
                    bubbles = database.read(lambda look, c=composer: _bubbles(look, c.id))
                    yield from _read_composer(composer, bubbles)


def _between(prefix: str) -> tuple[str, str]:
    """Return the first and the last key, so that the index of keys is used."""
    return prefix, prefix + "\U0010ffff"


def _rows(look: Look, prefix: str, columns: Iterable[str]) -> list[tuple[Any, ...]]:
    if not look.columns(_TABLE) >= {"key", "value"}:
        return []
    return look.select(
        _TABLE, tuple(columns), "WHERE key >= ? AND key < ? ORDER BY key", *_between(prefix)
    )


def _last_row(look: Look) -> int:
    rows = look.select(_TABLE, ["rowid"], "ORDER BY rowid DESC LIMIT 1")
    return as_count(rows[0][0]) if rows else 0


def _composers(look: Look) -> list[_Composer]:
    rows = _rows(look, "composerData:", ("key", "rowid", "value"))
    found = {
        word_of(key).partition(":")[2]: (row, as_object(json_of(value))) for key, row, value in rows
    }
    composers = [_Composer(name, data, as_count(row)) for name, (row, data) in found.items()]
    # Bubbles whose conversation has no row of its own any more are read all the same.
    orphans = {word_of(key).split(":")[1] for (key,) in _rows(look, "bubbleId:", ["key"])}
    return composers + [_Composer(name, {}, 0) for name in orphans - found.keys()]


def _changed(look: Look, after_row: int) -> set[str]:
    """Return the conversations with a bubble that was written since; the index alone is read."""
    rows = _rows(look, "bubbleId:", ("key", "rowid"))
    return {word_of(key).split(":")[1] for key, row in rows if as_count(row) > after_row}


def _bubbles(look: Look, composer_id: str) -> dict[str, tuple[dict[str, Any], str]]:
    rows = _rows(look, f"bubbleId:{composer_id}:", ("key", "value"))
    return {
        word_of(key).rpartition(":")[2]: (as_object(json_of(value)), word_of(value))
        for key, value in rows
        if value is not None
    }


def _read_composer(
    composer: _Composer, bubbles: dict[str, tuple[dict[str, Any], str]]
) -> Iterator[Reading]:
    data = composer.data
    for bubble in map(as_object, as_list(data.get("conversation"))):  # before bubbles had rows
        if bubble.get("bubbleId"):
            bubbles.setdefault(word_of(bubble["bubbleId"]), (bubble, as_json(bubble)))
    if bubbles or data.get("name") or data.get("subtitle"):
        yield _read_about(composer)
    headers = [as_object(entry) for entry in as_list(data.get("fullConversationHeadersOnly"))]
    order = {word_of(header.get("bubbleId")): place for place, header in enumerate(headers)}
    last = len(order)
    at_ms = parse_moment(data.get("createdAt"))[0]
    for name, (bubble, payload) in sorted(
        bubbles.items(), key=lambda b: (order.get(b[0], last), word_of(b[1][0].get("createdAt")))
    ):
        timing = as_object(bubble.get("timingInfo")).get("clientRpcSendTime")
        moment, bad = parse_moment(bubble.get("createdAt") or timing)
        # A bubble without a moment of its own follows the one before it.
        at_ms = moment or at_ms
        found = enumerate(_bubble_events(composer, name, bubble, payload))
        events = tuple(replace(event, block=place) for place, event in found)
        if events or bad:
            yield composer.reading(name, at_ms, "bubble", events, bad)


def _read_about(composer: _Composer) -> Reading:
    data = composer.data
    title = word_of(data.get("name"))
    event = composer.event(
        "composer",
        {name: data[name] for name in data if not name.startswith("conversation")},
        kind="session_meta",
        payload_type="composer",
        actor="system",
        text=" — ".join(filter(None, (title, word_of(data.get("subtitle"))))),
        title=title,
        item_id=composer.id,
        op_status=word_of(data.get("status")),
    )
    at_ms, bad = parse_moment(data.get("createdAt"))
    return composer.reading(composer.id, at_ms, "composerData", (event,), bad)


def _bubble_events(
    composer: _Composer, name: str, bubble: dict[str, Any], payload: str
) -> Iterator[Event]:
    """Return what a bubble says, in the order of its parts; an empty one says nothing."""
    role = bubble.get("type")
    model = word_of(as_object(bubble.get("modelInfo")).get("modelName")) or composer.model
    common: dict[str, Any] = {"item_id": name, "model": model}
    tokens = as_object(bubble.get("tokenCount"))
    usage = TokenUsage(as_count(tokens.get("inputTokens")), as_count(tokens.get("outputTokens")))
    text = text_of(bubble.get("text")) or text_of(_rich(json_of(bubble.get("richText"))))
    parts: list[tuple[str, dict[str, Any]]] = []
    if role not in (1, 2):
        said = text or text_of(bubble) or payload
        parts = [("bubble", {"kind": "unknown", "actor": "system", "text": said})]
    elif role == 1 and text:
        is_turn = not composer.parent
        parts = [("text", {"kind": "message", "actor": "user", "text": text, "is_turn": is_turn})]
    elif role == 2:
        if thought := text_of(as_object(bubble.get("thinking")).get("text")):
            parts.append(("thinking", {"kind": "reasoning", "actor": "assistant", "text": thought}))
        if text:
            parts.append(("text", {"kind": "message", "actor": "assistant", "text": text}))
        parts += _tool_parts(as_object(bubble.get("toolFormerData")))
    if wrong := text_of(as_object(bubble.get("errorDetails")).get("message")):
        said = {"kind": "system", "actor": "system", "text": wrong, "op_status": "error"}
        parts.append(("error", said))
    for place, (slot, said) in enumerate(parts):
        counted = {"usage": usage} if place == 0 and usage != TokenUsage() else {}
        # The record stands once, on its last part.
        own = payload if place == len(parts) - 1 else ""
        yield composer.event(slot, own, payload_type=slot, **common, **counted, **said)


def _rich(value: object) -> list[object]:
    """Return the texts of a rich document, in order; its other values are marks and names."""
    found: list[object] = []
    queue: list[object] = [value]
    while queue:
        node = as_object(queue.pop())
        found.append(node.get("text"))
        below = as_list(node.get("content") or node.get("children") or node.get("root"))
        queue.extend(reversed(below or [node.get("root")] * ("root" in node)))
    return found


def _tool_parts(tool: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if not tool.get("name") and not tool.get("toolCallId"):
        return
    status = word_of(tool.get("status"))
    wrong = text_of(_unpacked(tool.get("error")))
    is_error = status == "error" or bool(wrong)
    common = {
        "tool_name": word_of(tool.get("name")),
        # Cursor adds ids of its own on further lines.
        "tool_call_id": word_of(tool.get("toolCallId")).partition("\n")[0],
        "tool_error": is_error,
        "op_status": status,
    }
    asked = [text_of(_unpacked(tool.get("params"))), text_of(_unpacked(tool.get("rawArgs")))]
    text = asked[0] if asked[1] in asked[0] else "\n".join(filter(None, asked))
    call = {"kind": "tool_call", "actor": "assistant", "tool_phase": "request", "text": text}
    yield "call", common | call
    answered = text_of([_unpacked(tool.get("result")), wrong])
    if answered or status in _DONE:
        result = {"kind": "tool_result", "actor": "tool", "tool_phase": "response"}
        yield "result", common | result | {"text": answered}


def _unpacked(value: object) -> object:
    """Return what a JSON text inside the JSON says, any other value as it is."""
    found = json_of(value)
    return value if found is None else found
