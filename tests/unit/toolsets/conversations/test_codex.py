import re
from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Carry, Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.codex import CodexReader
from cortex.toolsets.conversations.sources.reader import SourceFile, parse_moment

FIXTURES = Path(__file__).parent / "fixtures" / "codex"
THREAD = "01a20000-1111-7222-8333-444455556666"
SUBAGENT = "01a20000-9999-7222-8333-444455550000"
LEGACY = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001"
OLDEST = "5973b6c0-94b8-487b-a530-2aeb6098ae0e"


def read_lines(lines: list[bytes], path: str) -> list[Reading]:
    reader, carry, file = CodexReader(), Carry(), SourceFile(path)
    return [
        reader.read(orjson.loads(raw), raw, line_no, file, carry)
        for line_no, raw in enumerate(lines, 1)
    ]


def read_session(session_id: str) -> list[Reading]:
    (path,) = FIXTURES.glob(f"*{session_id}.jsonl")
    return read_lines(path.read_bytes().splitlines(keepends=True), str(path))


def read_item(**payload: Any) -> Event:
    raw = orjson.dumps({"type": "response_item", "payload": payload})
    (event,) = read_lines([raw], "/s/x.jsonl")[0].events
    return event


NEWEST = read_session(THREAD)
LATE_2025 = read_session(LEGACY)


def events_in(readings: list[Reading]) -> list[Event]:
    return [event for reading in readings for event in reading.events]


def of_type(readings: list[Reading], payload_type: str) -> list[Event]:
    return [event for event in events_in(readings) if event.payload_type == payload_type]


def of_call(readings: list[Reading], call_id: str, kind: str) -> Event:
    (event,) = [e for e in events_in(readings) if e.tool_call_id == call_id and e.kind == kind]
    return event


def turns(readings: list[Reading]) -> list[str]:
    return [event.text for event in events_in(readings) if event.is_turn]


def test_genuine_prompts_are_turns_exactly_once_in_every_version() -> None:
    """Trap 5: injected context and compacted copies counted as turns."""
    assert turns(NEWEST) == ["why does the dough timer skip a minute", "continue", "continue"]
    assert turns(LATE_2025) == ["the sprinkler map is upside down"]
    assert turns(read_session(OLDEST)) == ["sort the attic boxes", "continue", "continue"]


def test_identical_prompts_have_keys_of_their_own() -> None:
    """Trap 1: two prompts that say the same collapsed into one."""
    for readings in (NEWEST, read_session(OLDEST)):
        assert len({reading.key for reading in readings}) == len(readings)


def test_equal_records_of_one_moment_are_two() -> None:
    prompt = {"type": "message", "role": "user", "content": "continue"}
    raw = orjson.dumps(
        {"timestamp": "2025-11-07T10:00:00Z", "type": "response_item", "payload": prompt}
    )
    first, second = read_lines([raw, raw], "/s/x.jsonl")
    assert first.key != second.key


def test_injected_context_is_no_message() -> None:
    injected = of_type(NEWEST, "injected_context") + of_type(LATE_2025, "injected_context")
    assert [event.text[:24] for event in injected] == [
        "<permissions instruction",
        "<environment_context>\n  ",
        "# AGENTS.md instructions",
        "<turn_aborted>\nThe user ",
    ]
    assert {(event.kind, event.actor, event.is_turn) for event in injected} == {
        ("system", "system", False)
    }


def test_of_a_message_written_twice_the_event_is_the_mirror() -> None:
    said = [
        (event.kind, event.is_mirror)
        for event in events_in(NEWEST)
        if event.text == "The timer rounds seconds down."
    ]
    assert said == [("event_msg", True), ("message", False), ("event_msg", True)]
    for payload_type in ("user_message", "agent_message", "agent_reasoning", "patch_apply_end"):
        assert {event.is_mirror for event in of_type(LATE_2025, payload_type)} == {True}


def test_what_only_an_event_says_is_no_mirror() -> None:
    (plan,) = of_type(NEWEST, "Plan")
    (review,) = of_type(LATE_2025, "exited_review_mode")
    assert (plan.is_mirror, plan.text) == (False, "1. Round to the nearest minute")
    assert (review.is_mirror, review.text.split("\n")[0]) == (False, "Hose crosses the path")


def test_inputs_of_tools_are_text_without_the_syntax_of_json() -> None:
    """Trap 3: searches had no text at all."""
    assert of_call(NEWEST, "call_rg", "tool_call").text == "rg -n tick oven/timer.py"
    assert of_call(LATE_2025, "call_cat", "tool_call").text.startswith("bash\n-lc\ncat sprinklers")
    assert of_call(LATE_2025, "ws_1", "tool_call").text == "sprinkler arc radius"
    assert of_call(LATE_2025, "call_ls", "tool_call").text == "ls\nbeds"
    assert '+north = "up"' in of_call(LATE_2025, "call_patch", "tool_call").text
    assert of_call(NEWEST, "call_ts", "tool_call").text == "whisk tools"
    assert of_call(NEWEST, "call_ts", "tool_result").text == "whisk_eggs"


def test_arguments_that_are_no_json_are_text_as_they_are() -> None:
    event = read_item(type="function_call", name="shell", arguments='{"command": [broken')
    assert event.text == '{"command": [broken'


def test_results_carry_the_name_of_their_tool_and_the_outcome() -> None:
    """Trap 9: neither stood on a result."""
    outcomes = {
        call_id: (event.tool_name, event.tool_error, event.op_status)
        for readings in (NEWEST, LATE_2025, read_session(OLDEST))
        for event in events_in(readings)
        if event.kind == "tool_result" and (call_id := event.tool_call_id) and not event.is_mirror
    }
    assert outcomes == {
        "call_rg": ("exec_command", True, "failed"),
        "call_mcp": ("mcp__pantry__search", True, "failed"),
        "call_ts": ("tool_search", False, "completed"),
        "call_cat": ("shell", False, "completed"),
        "call_false": ("shell", True, "failed"),
        "call_patch": ("apply_patch", True, "failed"),
        "call_box": ("shell", True, "failed"),
    }


def test_an_output_that_speaks_of_exit_codes_is_not_taken_for_one() -> None:
    event = read_item(type="function_call_output", call_id="c", output="Exit code: see the manual")
    assert not event.tool_error
    quoted = "Exit code: 0\nOutput:\nProcess exited with code 7"
    assert not read_item(type="function_call_output", call_id="c", output=quoted).tool_error


def test_outputs_are_read_in_all_their_shapes() -> None:
    shapes: list[tuple[object, str, bool]] = [
        ({"content": "no such dish", "success": False}, "no such dish", True),
        ('{"output":"fine","metadata":{"exit_code":0}}', "fine", False),
        ('{"output": broken', '{"output": broken', False),
        ([{"type": "input_text", "text": "half"}, {"type": "input_text", "text": "done"}],
         "half\ndone", False),
        ("apply_patch verification failed: no such file", "apply_patch verif", True),
        (None, "", False),
    ]  # fmt: skip
    for output, text, is_error in shapes:
        event = read_item(type="function_call_output", call_id="c", output=output)
        assert event.text.startswith(text)
        assert event.tool_error is is_error


def test_usage_is_counted_once_with_cached_and_reasoning_tokens() -> None:
    """Trap 6. Newest files tell it in two kinds of records, and again when limits change."""
    spent = [event.usage for event in events_in(NEWEST) if event.usage]
    assert spent == [TokenUsage(28, 9, 3, 0, 2), TokenUsage(30, 5, 10, 0, 1)]
    spent = [event.usage for event in events_in(LATE_2025) if event.usage]
    assert spent == [TokenUsage(20, 20, 80, 0, 5)]


def test_usage_is_read_where_details_hold_it() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 4,
        "input_tokens_details": {"cached_tokens": 6},
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    payload = {"type": "token_count", "info": {"last_token_usage": usage}}
    raw = orjson.dumps({"type": "event_msg", "payload": payload})
    assert read_lines([raw], "/s/x.jsonl")[0].events[0].usage == TokenUsage(4, 4, 6, 0, 3)


def test_the_model_and_the_folder_come_from_the_turn() -> None:
    answer = of_type(NEWEST, "message")[-1]
    assert answer.model == "gpt-5-codex"
    assert LATE_2025[3].cwd == "/home/ada/garden"
    assert LATE_2025[-1].cwd == "/home/ada/garden/maps"


def test_the_oldest_files_tell_folder_and_moment_in_their_first_lines() -> None:
    readings = read_session(OLDEST)
    assert readings[-1].cwd == "/home/ada/attic"
    moment, _ = parse_moment("2025-05-07T17:24:21.123Z")
    assert {reading.timestamp_ms for reading in readings} == {moment}
    assert {reading.session_id for reading in readings} == {OLDEST}


def test_a_file_name_gives_session_and_moment_when_no_record_does() -> None:
    path = f"/s/rollout-2025-05-07T17-24-21-{OLDEST}.jsonl"
    reading = read_lines([b'{"type":"message","role":"user","content":"hi"}'], path)[0]
    assert reading.session_id == OLDEST
    assert reading.timestamp_ms == parse_moment("2025-05-07T17:24:21Z")[0]


def test_a_title_names_the_session() -> None:
    (event,) = of_type(NEWEST, "thread_name_updated")
    assert (event.kind, event.title) == ("session_meta", "Dough timer skips a minute")


def test_a_compacted_history_is_a_mirror_below_its_summary() -> None:
    reading = LATE_2025[-1]
    summary, *history = reading.events
    assert summary.text == "The map was flipped and the patch failed once."
    assert [(event.slot, event.block, event.kind) for event in history] == [
        ("history:0", 1, "message"),
        ("history:1", 2, "tool_call"),
        ("history:2", 3, "tool_result"),
        ("history:3", 4, "compacted_raw"),
    ]
    assert {(event.is_mirror, event.is_turn) for event in history} == {(True, False)}
    assert history[2].tool_name == "shell"
    assert {(link.link_type, link.target) for link in reading.links} == {
        ("compacted_parent", reading.key)
    }


def test_a_subagents_file_is_labelled_linked_and_without_turns() -> None:
    readings = read_session(SUBAGENT)
    events = events_in(readings)
    assert {reading.session_id for reading in readings} == {SUBAGENT}
    assert {(e.is_substream, e.agent_label, e.is_turn) for e in events} == {(True, "Crumb", False)}
    assert readings[0].links == (Link("record", "subagent_parent", THREAD),)


def test_what_a_subagent_inherited_is_a_mirror_and_not_counted_again() -> None:
    readings = read_session(SUBAGENT)
    assert [reading.events[0].is_mirror for reading in readings] == [
        False,
        *[True] * 3,
        *[False] * 4,
    ]
    assert [e.usage for e in events_in(readings) if e.usage] == [TokenUsage(10, 3, 2, 0, 1)]
    assert {reading.cwd for reading in readings} == {"/home/ada/bakery"}


def test_ciphers_are_left_out() -> None:
    written = "".join(path.read_text() for path in FIXTURES.glob("*.jsonl"))
    ciphers = set(re.findall(r'"encrypted_content": ?"([^"]+)"', written))
    assert ciphers
    assert not [e for e in events_in(NEWEST + LATE_2025) for c in ciphers if c in e.text]
    assert "The timer rounds down." in of_type(NEWEST, "reasoning")[0].text


def test_an_unknown_record_is_one_event_with_its_text() -> None:
    (event,) = of_type(NEWEST, "yeast_report")
    assert (event.kind, event.text) == ("unknown", "a kind of record nobody knows yet")
    assert read_item(type="new_item", text="rise").kind == "unknown"


def test_words_between_agents_are_messages() -> None:
    content = [{"type": "input_text", "text": "the rye is in"}]
    event = read_item(type="agent_message", author="Crumb", recipient="root", content=content)
    assert (event.kind, event.actor, event.text) == ("message", "assistant", "the rye is in")
    (event,) = of_type(read_session(SUBAGENT), "inter_agent_communication")
    assert (event.kind, event.text) == ("message", "mind the proofing drawer")


def test_a_parent_is_linked() -> None:
    raw = b'{"type":"event_msg","payload":{"type":"task_started"},"parent_id":"evt_1"}'
    reading = read_lines([raw], "/s/x.jsonl")[0]
    assert reading.links == (Link("record", "parent_event", "evt_1"),)
