"""Secrets out of records before anything is made of them, so that nothing made of them has any."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import orjson

from cortex.toolsets.conversations.models import Event, Reading
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.sources.reader import as_json

_NONE: Mapping[str, int] = MappingProxyType({})
# What is written as an escape would pass for a letter before the token that follows it.
_ESCAPE = re.compile(rb"\\[ntrfb]")


class Cleaned(NamedTuple):
    """A record without its secrets: as text, parsed, and how many each rule took out."""

    text: str
    value: Any
    counts: Mapping[str, int]


def parsed(raw: bytes | str) -> Any:
    """Return what JSON says; half of a surrogate pair, which agents write, becomes `?`.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested deeper than anybody reads.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        value = json.loads(raw, parse_constant=lambda _: None)
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


class Cleaner:
    """Takes secrets out of JSON, whatever stands between a name and its value."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def text(self, text: str) -> str:
        """Return a text without its secrets."""
        return self._redactor.redact(text).text if text else text

    def json(self, text: str, value: Any = None) -> Cleaned:
        """Return JSON without its secrets; with none in it, as it is, and `value` as it was given.

        Looked at whole, as a name may stand far from its value, and then string by string.
        """
        unescaped = _unescaped(text.encode("utf-8", "replace"))
        if not (
            self._redactor.is_suspect(unescaped)
            and self._redactor.redact(unescaped.decode("utf-8", "replace")).counts
        ):
            return Cleaned(text, value, _NONE)
        whole = self._redactor.redact_json(text)
        counts = Counter(whole.counts)
        try:
            clean = self._walked(parsed(whole.text), counts)
        except ValueError:
            # The whole is no JSON any more, or never was: its strings are cleaned alone.
            counts.clear()
            clean = self._walked(value, counts)
        return Cleaned(as_json(clean), clean, counts)

    def reading(self, reading: Reading) -> tuple[Reading, str, Mapping[str, int]]:
        """Return a reading without secrets, its record as JSON, and how many each rule took out.

        What the payload gives away by the name it stands under is taken out of the texts as well.
        """
        counts: Counter[str] = Counter()
        replaced: dict[str, str] = {}
        payloads: list[str] = []
        for event in reading.events:
            payload = event.payload_json
            cleaned = self.json(payload) if payload else Cleaned("", None, _NONE)
            payloads.append(cleaned.text)
            if cleaned.counts:
                counts.update(cleaned.counts)
                _differences(_loose(payload), cleaned.value, replaced)
        said: Counter[str] = Counter()
        events = tuple(
            self._event(event, payload, replaced, said)
            for event, payload in zip(reading.events, payloads, strict=True)
        )
        told = [payload for payload in payloads if payload]
        raw_json = told[0] if len(told) == 1 else f"[{','.join(told)}]"
        # A secret of a text stands in the payload as well, and is counted there.
        return replace(reading, events=events), raw_json, counts if told else said

    def _event(
        self, event: Event, payload: str, replaced: Mapping[str, str], said: Counter[str]
    ) -> Event:
        text, title = event.text, event.title
        for old, new in replaced.items():
            text, title = text.replace(old, new), title.replace(old, new)
        title = self.text(title)
        found = self._redactor.redact(text)
        said.update(found.counts)
        if payload == event.payload_json and found.text == event.text and title == event.title:
            return event
        return replace(event, text=found.text, title=title, payload_json=payload)

    def _walked(self, value: Any, counts: Counter[str]) -> Any:
        if isinstance(value, str):
            redacted = self._redactor.redact(value)
            counts.update(redacted.counts)
            return redacted.text
        if isinstance(value, list):
            return [self._walked(item, counts) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {self._walked(name, counts): self._walked(item, counts) for name, item in items}
        return value


def _unescaped(raw: bytes) -> bytes:
    """Return JSON with blanks where white space is written as an escape, at the same places."""
    return _ESCAPE.sub(b"  ", raw) if b"\\" in raw else raw


def _loose(text: str) -> Any:
    try:
        return parsed(text)
    except (ValueError, RecursionError):
        return None


def _differences(before: Any, after: Any, found: dict[str, str]) -> None:
    """Collect the strings that cleaning changed, and what became of them."""
    if isinstance(before, str) and isinstance(after, str):
        if before != after and len(before) > 3:
            found[before] = after
    elif isinstance(before, list) and isinstance(after, list):
        for one, other in zip(cast("list[Any]", before), cast("list[Any]", after), strict=False):
            _differences(one, other, found)
    elif isinstance(before, dict) and isinstance(after, dict):
        cleaned = cast("dict[str, Any]", after)
        for name, one in cast("dict[str, Any]", before).items():
            _differences(one, cleaned.get(name), found)
