"""Secrets are made while the test runs; the alphabet is the one that secrets are written in."""

import base64
import json
import string
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.settings.models import RedactionSettings
from cortex.toolsets.conversations.redaction import Redactor

REDACTOR = Redactor(RedactionSettings())
CUSTOM = Redactor(RedactionSettings(extra_patterns=(r"[a-f]+\d", r"(?i)redacted|pass", r"\"\w")))
BASE62 = string.ascii_letters + string.digits
PRIVATE = "PRIVATE" + " KEY-----"
NAMES = ["password", "token", "secret", "api_key", "AccountKey", "pwd", "key", "bearer ", "export "]
SIGNS = [
    "=",
    ":",
    " = ",
    ": ",
    "=>",
    ":=",
    '"',
    "'",
    '\\"',
    "\\",
    "\\n",
    "\n",
    " ",
    ",",
    "(",
    "]",
    "@",
]
STARTS = ["://", "a:b", "ey" + "Jhbgciabcdefg", ".", "gh" + "p_", "-", "_", "AK" + "IA", "hf" + "_"]
BLOCKS = [
    "-----BEGIN " + PRIVATE,
    "-----END " + PRIVATE,
    "sk" + "-proj-",
    "[REDACTED:",
    "jwt]",
    "é",
]
WORDS = st.sampled_from([*NAMES, *SIGNS, *STARTS, *BLOCKS])
VALUES = st.text(st.sampled_from(BASE62 + "+/-_.!$é漢"), min_size=1, max_size=44)
TEXTS = st.lists(st.one_of(WORDS, VALUES), max_size=30).map("".join) | st.text(max_size=80)


@given(TEXTS)
def test_redacting_twice_equals_once(text: str) -> None:
    once = REDACTOR.redact(text)
    again = REDACTOR.redact(once.text)
    assert (again.text, dict(again.counts)) == (once.text, {})


class Distrustful(Redactor):
    """Searches every text."""

    def is_suspect(self, data: bytes) -> bool:
        return super().is_suspect(data) or True


@given(TEXTS, st.text(st.sampled_from(BASE62), min_size=36, max_size=36))
def test_what_holds_a_secret_is_suspect(text: str, body: str) -> None:
    """The search is spared most texts by a cheap test, which must not overlook any."""
    said = f"{text} {body}"
    assert REDACTOR.redact(said) == Distrustful(RedactionSettings()).redact(said)


@given(TEXTS)
def test_what_no_rule_matched_is_the_same_text(text: str) -> None:
    found = REDACTOR.redact(text)
    assert bool(found.counts) == (found.text != text)
    assert found.text.count("[REDACTED:") >= sum(found.counts.values())


def _texts_of(value: Any) -> st.SearchStrategy[Any]:
    return st.lists(value, max_size=3) | st.dictionaries(TEXTS, value, max_size=3)


JSON = st.recursive(TEXTS | st.integers() | st.booleans() | st.none(), _texts_of, max_leaves=8)


@given(JSON, st.booleans())
def test_json_stays_json_without_the_users_patterns(value: Any, is_spaced: bool) -> None:
    separators = (", ", ": ") if is_spaced else (",", ":")
    text = json.dumps(value, ensure_ascii=is_spaced, separators=separators)
    json.loads(REDACTOR.redact(text).text)
    nested = json.dumps({"out": text})
    json.loads(json.loads(REDACTOR.redact(nested).text)["out"])


@given(st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_json_stays_json_with_patterns_that_eat_its_marks(value: dict[str, str]) -> None:
    orjson.loads(CUSTOM.redact_json(orjson.dumps(value).decode()).text)


@given(st.text(st.sampled_from(BASE62), min_size=36, max_size=36), TEXTS, TEXTS)
def test_a_token_goes_whatever_stands_around_it(body: str, before: str, after: str) -> None:
    token = "gh" + "p_" + body
    assert token not in REDACTOR.redact(f"{before} {token} {after}").text


@given(st.binary(min_size=30, max_size=3000))
def test_base64_without_a_name_stays(content: bytes) -> None:
    text = "data:image/png;base64," + base64.b64encode(content).decode()
    assert REDACTOR.redact(text).text == text


NEARLY = ["a", "a1", "eyJ", "-eyJaaaaaaaaaaaa", ".eyJaaaaaaaaaaaa", "://a:", "password=", "token: "]
HARDLY = [
    'api_key=\\"\\\\',
    "-sk-proj-",
    "-M",
    " ",
    "\\",
    "\n",
    "secret=$a1",
    '"token":',
    "password='",
]
RARELY = ["-----BEGIN " + PRIVATE, "-----BEGIN " + PRIVATE + "a ", "key=a1b2c3d4e5f6a7b8c9d0 ", "-"]
OTHERS = ["glpat-", "[REDACTED:", "password:password", "x=/+" + "ab12" * 30]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", [*NEARLY, *HARDLY, *RARELY, *OTHERS])
def test_a_megabyte_of_what_nearly_matches_is_done_in_linear_time(piece: str) -> None:
    """The slowest took 2 s on a busy core; anything quadratic would take hours."""
    text = piece * (1_000_000 // len(piece))
    REDACTOR.redact(text)
    REDACTOR.redact(f'password: "{text}@="')
