"""Secrets taken out of text: before it is stored, and again before it is shown.

Runs on every event, so most of it decides quickly that there is nothing to do: a whole text is
only seen by `in` and `translate`; regular expressions see the few places that those found.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import orjson

from cortex.settings.models import RedactionSettings
from cortex.toolsets.conversations import redaction_rules as rules
from cortex.toolsets.conversations.suspicion import (
    MAX_NAMED_CHARS,
    RUN,
    RUNS,
    VALUES,
    has_assignment,
    is_harmless,
    may_be_token,
    may_hold_secret,
)

_NONE: Mapping[str, int] = MappingProxyType({})
_MARK = "[REDACTED:"
_MARKS = re.compile(r"\[REDACTED:[a-z0-9-]{1,40}\]")


_PASSWORDS = (b"password", b"passwd", b"passphrase", b"pwd", b"pass")
_NAMES = (*_PASSWORDS, b"secret", b"token", b"key")
_WHOLE_NAMES = (b"pwd", b"pass")
_KEYS = tuple(
    b"api access secret private account auth encryption signing master admin service shared "
    b"storage client app deploy webhook".split()
)
_NAME_BACKWARDS = re.compile(r"[=:>]{1,3}[\"'`\\\] \t]{0,12}+([\w.$-]{1,64}+)", re.ASCII)


class Redacted(NamedTuple):
    """A text without its secrets, and how many each rule took out."""

    text: str
    counts: Mapping[str, int]


class _Span(NamedTuple):
    start: int
    end: int
    rule: str
    rank: int  # where two overlap, the lower one gives the name


class Redactor:
    """Takes secrets out of texts by the settings. Doing it twice changes nothing more."""

    def __init__(self, settings: RedactionSettings) -> None:
        self._is_off = settings.dangerously_skip_secret_redaction
        self._extra = [re.compile(pattern) for pattern in settings.extra_patterns]

    def is_suspect(self, data: bytes) -> bool:
        """Say whether a text, in UTF-8, is worth a search; much faster than the search."""
        return not self._is_off and (bool(self._extra) or may_hold_secret(data))

    def redact(self, text: str) -> Redacted:
        """Return the text with each secret replaced by `[REDACTED:<rule>]`."""
        if not self.is_suspect(text.encode("utf-8", "replace")):
            return Redacted(text, _NONE)
        spans = self._extra_spans(text) if self._extra else []
        # One byte for each character, so that places are the same in both.
        data = text.encode("latin-1", "replace")
        spans += _long_values(text, data)
        if b"@" in data and b"://" in data:
            spans += _url_passwords(text, data)
        if b"PRIVATE KEY" in data:
            spans += (_Span(*m.span(), "private-key", 0) for m in rules.PEM.finditer(text))
        if has_assignment(data):
            spans += _assignments(text, data.lower())
        return _replaced(text, spans) if spans else Redacted(text, _NONE)

    def redact_json(self, text: str) -> Redacted:
        """Do the same to JSON, which stays JSON whatever the user's own patterns match."""
        redacted = self.redact(text)
        if redacted.counts and self._extra and _is_json(text) and not _is_json(redacted.text):
            counts: Counter[str] = Counter()
            value = self._walked(orjson.loads(text), counts)
            return Redacted(orjson.dumps(value).decode(), counts)
        return redacted

    def _walked(self, value: object, counts: Counter[str]) -> object:
        if isinstance(value, str):
            redacted = self.redact(value)
            counts.update(redacted.counts)
            return redacted.text
        if isinstance(value, list):
            return [self._walked(item, counts) for item in value]
        if isinstance(value, dict):
            items = value.items()
            return {self._walked(str(k), counts): self._walked(v, counts) for k, v in items}
        return value

    def _extra_spans(self, text: str) -> list[_Span]:
        """Return what the user's patterns match, but not inside what was replaced before."""
        found = [m.span() for pattern in self._extra for m in pattern.finditer(text) if m[0]]
        marks = [m.span() for m in _MARKS.finditer(text)] if found and _MARK in text else []
        return [
            _Span(start, end, "custom", 1)
            for start, end in found
            if not any(start < stop and begin < end for begin, stop in marks)
        ]


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _places(data: bytes, name: bytes) -> Iterator[int]:
    place = data.find(name)
    while place >= 0:
        yield place
        place = data.find(name, place + len(name))


def _long_values(text: str, data: bytes) -> Iterator[_Span]:
    """Find tokens of a known shape, and long values that name and disorder give away."""
    runs, values = data.translate(RUNS), data.translate(VALUES)
    place = runs.find(RUN)
    while place >= 0:
        start = values.rfind(b" ", 0, place) + 1
        end = values.find(b" ", place)
        end = len(values) if end < 0 else end
        place = runs.find(RUN, end)
        value = data[start:end]
        if is_harmless(value):
            continue
        tokens = list(_tokens(text, value, start, end))
        yield from tokens
        if not tokens and len(value) <= MAX_NAMED_CHARS:
            yield from _high_entropy(text, start, end)


def _tokens(text: str, value: bytes, start: int, end: int) -> Iterator[_Span]:
    if not may_be_token(value):
        return
    for match in rules.TOKEN.finditer(text, start, end):
        yield _Span(*match.span(), str(match.lastgroup).replace("_", "-"), 0)


def _high_entropy(text: str, start: int, end: int) -> Iterator[_Span]:
    before = text[max(0, start - 96) : start]
    lead = before.rstrip(" \t\"'`\\")
    value = text[start:end].rstrip(".")
    end = start + len(value)
    end += len(text[end : end + 2]) - len(text[end : end + 2].lstrip("="))
    if lead[-6:].lower() == "bearer" and lead != before:
        if rules.looks_random(value):
            yield _Span(start, end, "bearer-token", 2)
    elif lead.endswith(("=", ":", ">")) and (value[0] not in "/.~" or len(value) == 40):
        named = _NAME_BACKWARDS.match(lead[::-1])
        name = named[1][::-1] if named else ""
        if rules.named_secret(name, value) and not _is_in_mark(
            text, start - len(before) + len(lead)
        ):
            rule = rules.rule_of(name, is_password=False)
            yield _Span(start, end, "high-entropy" if rule == "secret" else rule, 4)


def _url_passwords(text: str, data: bytes) -> Iterator[_Span]:
    for place in _places(data, b"://"):
        match = rules.URL_PASSWORD.match(text, place)
        if match and match["value"][0] not in "${<[%*":
            yield _Span(*match.span("value"), "url-password", 1)


def _assignments(text: str, lower: bytes) -> Iterator[_Span]:
    """Find values that are assigned to a name which promises a secret."""
    for name in _NAMES:
        done = 0
        for place in _places(lower, name):
            if place < done or not _is_name(text, lower, place, name):
                continue
            match = rules.ASSIGNED.match(text, place + len(name))
            if match and _is_taken(text, place, name, match) and not _is_in_mark(text, place):
                start, end = match.span("quoted" if match["quoted"] else "bare")
                done = end = rules.end_of_value(text, end, is_quoted=bool(match["quoted"]))
                whole = text[max(0, place - 24) : place + len(name)].rsplit(maxsplit=1)[-1]
                rule = rules.rule_of(whole, is_password=name in _PASSWORDS)
                yield _Span(start, end, rule, 3)


def _is_in_mark(text: str, place: int) -> bool:
    """Say whether a name is that of a rule, in what was put where a secret stood."""
    start = text.rfind(_MARK, max(0, place - 60), place)
    return start >= 0 and "]" not in text[start:place].rstrip("]=:>\"'`\\ \t")


def _is_name(text: str, lower: bytes, place: int, name: bytes) -> bool:
    if name == b"key":
        return lower[max(0, place - 12) : place].rstrip(b"_-. ").endswith(_KEYS)
    if name in _WHOLE_NAMES:
        # Not the end of another word, as in `bypass` and `cwd`; `dbPass` is two words.
        is_inside = lower[place - 1 : place].isalpha() if place else False
        return not is_inside or (text[place].isupper() and text[place - 1].islower())
    return b"public" not in lower[max(0, place - 12) : place]


def _is_taken(text: str, place: int, name: bytes, match: re.Match[str]) -> bool:
    """Say whether the value is a secret, not code, a type, a sentence or a placeholder."""
    is_named_password = name in _PASSWORDS
    value = match["quoted"]
    if value:
        if is_named_password:
            return rules.is_password(value, is_quoted=True, is_environment=False, is_code=False)
        return rules.is_secret(value, is_code=False)
    value, after = match["bare"], text[match.end() : match.end() + 80]
    # A quoted name is JSON: what stands bare behind it is a number or a word of the language.
    if match["key_quote"] or match["sign"] not in {"=", ":"} or after[:1] in {"(", "[", "{"}:
        return False
    rest = after.lstrip(" \t")
    if match["sign"] == ":" and rest != after and rest[:1].isalnum():
        return False  # a sentence goes on
    is_spaced = bool(match["gap"]) and match["sign"] == "="
    is_code = is_spaced or after[:1] in {")", ","}
    if is_named_password:
        is_upper = text[place : place + len(name)].isupper()
        is_environment = is_upper and match["sign"] == "=" and not is_code
        return rules.is_password(
            value, is_quoted=False, is_environment=is_environment, is_code=is_code
        )
    # `token: OAuth2Token` names a type.
    return rules.is_secret(value, is_code=is_code or match["sign"] == ":")


def _replaced(text: str, spans: list[_Span]) -> Redacted:
    """Put the names of rules where secrets were; what overlaps is one secret."""
    merged: list[_Span] = []
    for span in sorted(spans):
        if text.startswith(_MARK, span.start):
            continue
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            named = min(last, span, key=lambda each: each.rank)
            merged[-1] = named._replace(start=last.start, end=max(last.end, span.end))
        else:
            merged.append(span)
    pieces: list[str] = []
    done = 0
    for span in merged:
        pieces += (text[done : span.start], _MARK, span.rule, "]")
        done = span.end
    pieces.append(text[done:])
    counts = Counter(span.rule for span in merged)
    return Redacted("".join(pieces), counts) if merged else Redacted(text, _NONE)
