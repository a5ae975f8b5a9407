"""What was stored before a rule existed is not shown: the rules run again on every answer."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cortex.settings.models import RedactionSettings
from cortex.toolsets.conversations.answers import open_answer, search_answer
from cortex.toolsets.conversations.output import OutputCleaner
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.service import Found, Hit, Window
from cortex.toolsets.conversations.snippet import snippet

SECRET = "ghp_" + "a1B2" * 9


def event(text: str, **more: Any) -> dict[str, Any]:
    names = (
        "event_uid session_id source_name harness inference_provider event_kind payload_type"
        " actor_kind tool_name tool_phase op_status item_id project source_file title"
        " tool_call_id agent_label"
    ).split()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    numbers = {"doc_id": 1, "source_generation": 0, "source_line_no": 1, "turn_seq": 1}
    return (
        dict.fromkeys(names, "")
        | numbers
        | {"event_ts": moment, "text_content": text, "payload_json": "", "event_order": 1}
        | more
    )


def cleaner(*, is_off: bool = False) -> OutputCleaner:
    settings = RedactionSettings(dangerously_skip_secret_redaction=is_off)
    return OutputCleaner(Redactor(settings), preview_chars=60)


def shown(text: str, title: str = "", **more: Any) -> str:
    found = snippet(text, ["walrus"], 60)
    hit = Hit(event(text, **more), 1.0, 1.0, 1, 5, found, title)
    clean = cleaner().found(Found("q", "walrus", ["walrus"], 1, 5.0, 1.0, (hit,)))
    return json.dumps(search_answer(clean, "full", {"complete": True}).to_data())


def test_a_secret_in_a_hit_is_not_shown() -> None:
    assert SECRET not in shown(f"the walrus has {SECRET}")
    assert SECRET not in shown("the walrus", title=f"about {SECRET}")
    assert SECRET not in shown("the walrus", tool_name=SECRET)


@pytest.mark.parametrize("gap", range(0, 60, 3))
def test_no_half_of_a_secret_is_left_at_the_edge_of_a_snippet(gap: int) -> None:
    said = shown("walrus " + "x " * (gap // 2) + SECRET + " tail" * 40)
    assert all(SECRET[n : n + 12] not in said for n in range(len(SECRET) - 12))


def test_a_snippet_from_inside_a_private_key_is_not_shown() -> None:
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    body = "\n".join(f"{n:02d}" + "MIIEow" * 10 for n in range(20))
    said = shown(f"{begin}\n{body}\nwalrus\n{body}\n{end}")
    assert "MIIEow" not in said


def test_what_has_no_secret_is_the_same_object() -> None:
    plain = Hit(event("the walrus", payload_json='{"a": 1}'), 1.0, 1.0, 1, 5, "the walrus", "")
    clean = cleaner().found(Found("q", "walrus", ["walrus"], 1, 5.0, 1.0, (plain,)))
    assert clean.hits[0].event is plain.event


def test_a_secret_in_a_window_is_not_shown_in_text_or_payload() -> None:
    target = event(f"it is {SECRET}", payload_json=json.dumps({"token": SECRET}))
    window = cleaner().window(Window("u", 0, 0, target, [target]))
    for verbosity in ("prose", "full"):
        said = open_answer(window, verbosity).to_text()
        assert SECRET not in said
        assert "[REDACTED:" in said
    assert json.loads(window.events[0]["payload_json"])["token"].startswith("[REDACTED:")


def test_switched_off_it_shows_what_is_stored() -> None:
    target = event(f"it is {SECRET}")
    assert cleaner(is_off=True).window(Window("u", 0, 0, target, [target])).target is target


def test_an_event_that_is_not_there_stays_so() -> None:
    assert cleaner().window(Window("u", 3, 3)).target is None
