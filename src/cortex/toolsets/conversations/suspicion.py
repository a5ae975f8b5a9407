"""Whether a text may hold a secret: a cheap look at its bytes, so that few are searched in earnest.

It may say yes to a text without secrets, and never says no to one with any.
"""

import re

from cortex.toolsets.conversations import redaction_rules as rules

_ALNUM = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _only(kept: bytes) -> bytes:
    """Return a table that makes every byte of `kept` an x and every other one a blank."""
    return bytes(ord("x") if byte in kept else ord(" ") for byte in range(256))


# The shortest token, and the shortest value judged by disorder alone, have 20 characters.
RUN = b"x" * 20
RUNS = _only(_ALNUM + b"_-")
VALUES = _only(_ALNUM + b"_-+/.~%")
# A longer value is data, not a secret that a name could tell.
MAX_NAMED_CHARS = 1024
_NOT_DIGITS = bytes(byte for byte in range(256) if byte not in b"0123456789")
_HASHED = b"0123456789abcdef-"
# What agents name responses, requests, calls and models.
_ID_BEGINNINGS = (b"toolu_01", b"msg_01", b"req_011", b"call_", b"claude-")
_MAX_ID_BYTES = 36
_TOKEN = re.compile(rules.TOKEN.pattern.encode(), re.VERBOSE)
_URL_PASSWORD = re.compile(rb"://[^\s/:@\"'\\<>]{0,512}+:[^\s/@\"'\\<>]{1,1024}+@")
# `"api_key": "`, `apiKey = '` and `API-KEY=` all become `apikey=`.
_SQUEEZED = bytes(ord("=") if byte == ord(":") else byte for byte in range(256)).lower()
_SQUEEZED_OUT = b" \t\"'`\\_->]"
_ASSIGNED = re.compile(
    rb"=(?:(?<=key=)|(?<=token=)|(?<=secret=)|(?<=pwd=)|(?<=pass=)|(?<=password=)|(?<=passwd=)"
    rb"|(?<=passphrase=))"
)
_NAMES = tuple(part.encode() for part in rules.SECRET_BEGINNINGS)


def may_hold_secret(data: bytes) -> bool:
    """Say whether a text, in UTF-8, is worth a search for secrets."""
    runs = data.translate(RUNS)
    return (
        (RUN in runs and _has_long_secret(data, runs))
        or (b"@" in data and b"://" in data and _URL_PASSWORD.search(data) is not None)
        or b"PRIVATE KEY" in data
        or has_assignment(data)
    )


def has_assignment(data: bytes) -> bool:
    """Say whether something is assigned to a name that promises a secret."""
    return _ASSIGNED.search(data.translate(_SQUEEZED, _SQUEEZED_OUT)) is not None


def is_harmless(value: bytes) -> bool:
    """Say whether a long value is a name in one case, a line of dashes, or what an agent made."""
    if not value.translate(None, _NOT_DIGITS) and value in (value.lower(), value.upper()):
        return True
    if len(value) > _MAX_ID_BYTES:
        return False
    is_uuid = len(value) == 36 and value[8:9] == b"-" and _is_hash(value)
    return is_uuid or value.startswith(_ID_BEGINNINGS)


def _is_hash(value: bytes) -> bool:
    return not value.translate(None, _HASHED)


def may_be_token(value: bytes) -> bool:
    """Say whether a value is worth a search for tokens."""
    # An image in base64 has no place to begin a token, and `in` says so 50 times faster.
    is_image = len(value) > 2048 and not any(map(value.__contains__, rules.TOKEN_BEGINNINGS))
    return not (is_image or _is_hash(value))


def _has_long_secret(data: bytes, runs: bytes) -> bool:
    values = data.translate(VALUES)
    place = runs.find(RUN)
    while place >= 0:
        # The unbroken value that the run is a part of.
        start = values.rfind(b" ", 0, place) + 1
        end = values.find(b" ", place)
        end = len(values) if end < 0 else end
        place = runs.find(RUN, end)
        value = data[start:end]
        if is_harmless(value):
            continue
        if may_be_token(value) and _TOKEN.search(data, start, end):
            return True
        if len(value) <= MAX_NAMED_CHARS and _is_named(data[max(0, start - 96) : start]):
            return True
    return False


def _is_named(before: bytes) -> bool:
    lead = before.rstrip(b" \t\"'`\\")
    if not lead.endswith((b"=", b":", b">")):
        return lead[-6:].lower() == b"bearer"
    lower = lead.lower()
    return any(name in lower for name in _NAMES)
