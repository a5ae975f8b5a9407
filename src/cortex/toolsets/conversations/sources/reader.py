"""What every source offers, and what all of them share: keys, moments, text."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, cast, runtime_checkable

import orjson

from cortex.toolsets.conversations.models import Carry, Reading

Format = Literal["jsonl", "json", "sqlite", "yaml"]
# Longer values are cut: what a person looks for stands before this.
MAX_TEXT_CHARS = 200_000
_MAX_CALLS_KEPT = 512


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A session file: where it lies, and the stem that may name its session."""

    path: str

    @property
    def stem(self) -> str:
        """Return the file name without folder and ending."""
        return self.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]


@runtime_checkable
class LineReader(Protocol):
    """Reads one agent's lines. Holds no state of its own: everything is in the `Carry`."""

    harness: str
    provider: str

    def read(
        self, record: Mapping[str, Any], raw: bytes, line_no: int, file: SourceFile, carry: Carry
    ) -> Reading:
        """Turn one parsed line into what it says; never raises on a shape it does not know."""
        ...


class DocumentReader(Protocol):
    """Reads files that are rewritten whole; the last reading of a record is the one that holds."""

    harness: str
    provider: str

    def read_all(self, file: SourceFile) -> Iterator[Reading]:
        """Return every record in order; the same record has the same key each time."""
        ...


@runtime_checkable
class DatabaseReader(Protocol):
    """Reads a database, from where it stood at an earlier reading on."""

    harness: str
    provider: str

    def position(self, file: SourceFile) -> str:
        """Return where the source stands; taken before a read, it is the next read's `since`."""
        ...

    def read_all(self, file: SourceFile, since: str = "") -> Iterator[Reading]:
        """Return every record, or with `since` at least those that changed from there on."""
        ...


def fingerprint(raw: bytes) -> str:
    """Return a short name for the bytes of a record."""
    return hashlib.blake2b(raw.strip(), digest_size=12).hexdigest()


def record_key(native_id: str, raw: bytes, line_no: int, timestamp_ms: int, carry: Carry) -> str:
    """Name a record so that a copied, rotated or re-read file names it the same.

    By the agent's own id where there is one; else by its moment and bytes, counting equal records
    of that moment; else, for agents that write no moments, by line and bytes.
    """
    if native_id:
        return f"id:{native_id}"
    digest = fingerprint(raw)
    if not timestamp_ms:
        return f"line:{line_no}:{digest}"
    if timestamp_ms != carry.timestamp_ms:
        carry.seen.clear()
    carry.timestamp_ms = timestamp_ms
    count = carry.seen.get(digest, 0)
    carry.seen[digest] = count + 1
    return f"at:{timestamp_ms}:{digest}:{count}"


def parse_moment(value: object) -> tuple[int, str]:
    """Return unix milliseconds and, if it is not a moment, what stood there instead.

    RFC 3339, a naive time taken as UTC, or unix seconds or milliseconds.
    """
    if value is None or value == "":
        return 0, ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        milliseconds = value if abs(value) > 1e11 else value * 1000
        return (int(milliseconds), "") if 0 < milliseconds < 1e14 else (0, str(value)[:64])
    try:
        moment = datetime.fromisoformat(str(value))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0, int(moment.timestamp() * 1000)), ""
    except (ValueError, OverflowError):
        return 0, str(value)[:64]


def remember_tool(carry: Carry, call_id: str, name: str) -> None:
    """Keep a call's tool name for its result, which does not say it; the oldest are forgotten."""
    if call_id and name:
        carry.tools[call_id] = name
        while len(carry.tools) > _MAX_CALLS_KEPT:
            carry.tools.pop(next(iter(carry.tools)))


def text_of(value: object) -> str:
    """Return every text inside a value, in order: what a person would search for.

    Strings as they are; lists and objects walked through; numbers and names of keys left out.
    """
    parts: list[str] = []
    _collect(value, parts, depth=0)
    return "\n".join(parts)[:MAX_TEXT_CHARS]


def _collect(value: object, parts: list[str], depth: int) -> None:
    if isinstance(value, str):
        if value.strip():
            parts.append(value)
    elif depth > 32:
        return
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, object]", value).values():
            _collect(item, parts, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for item in cast("Sequence[object]", value):
            _collect(item, parts, depth + 1)


def name_of(value: object) -> str:
    """Return a string as it is, nothing for anything else."""
    return value if isinstance(value, str) else ""


def as_json(value: object) -> str:
    """Return compact JSON; nothing where it is nested deeper than anybody reads."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # orjson reads deeper nesting than it writes (1024 against 254), and no lone surrogates.
        try:
            return json.dumps(value, separators=(",", ":"), default=str)
        except RecursionError:
            return ""


def as_object(value: object) -> dict[str, Any]:
    """Return an object, or an empty one where something else stands."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a list, or an empty one where something else stands."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_count(value: object) -> int:
    """Return a number that is not negative, 0 for anything else."""
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
