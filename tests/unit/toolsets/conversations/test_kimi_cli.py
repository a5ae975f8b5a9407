from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Carry, Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.kimi_cli import KimiCliReader, KimiStateReader
from cortex.toolsets.conversations.sources.reader import SourceFile

SESSION = "0c7d4d1e-9b7f-4f6c-8a51-2b6f0e8d1a77"
FOLDER = Path(__file__).parent / "fixtures" / "kimi-cli" / "6a1f" / SESSION


def read(path: Path) -> list[Reading]:
    reader, carry, file = KimiCliReader(), Carry(), SourceFile(str(path))
    return [
        reader.read(orjson.loads(raw), raw, line_no, file, carry)
        for line_no, raw in enumerate(path.read_bytes().splitlines(keepends=True), 1)
    ]


def read_one(kind: str, payload: dict[str, Any]) -> Event:
    record = {"timestamp": 1772000000.5, "message": {"type": kind, "payload": payload}}
    file = SourceFile("/k/s/wire.jsonl")
    return KimiCliReader().read(record, b"{}", 1, file, Carry()).events[0]


TODAY = read(FOLDER / "wire.jsonl")


def of_type(record_type: str) -> list[Event]:
    return [e for r in TODAY if r.record_type == record_type for e in r.events]


def test_only_a_persons_own_prompts_are_turns() -> None:
    """Trap: the number of a step is no turn."""
    turns = [event.text for reading in TODAY for event in reading.events if event.is_turn]
    assert turns == [
        "Chart the honey flow",
        "in kilograms please",
        "what is a super?",
        "continue",
        "continue",
    ]
    assert of_type("StepBegin")[0].kind == "progress"


def test_equal_prompts_of_one_moment_are_two_readings() -> None:
    """Trap: without ids, identical prompts became one."""
    prompt = {"type": "TurnBegin", "payload": {"user_input": "continue"}}
    raw = orjson.dumps({"timestamp": 1772000000.5, "message": prompt})
    carry, file = Carry(), SourceFile("/s/session/wire.jsonl")
    first, second = (
        KimiCliReader().read(orjson.loads(raw), raw, line_no, file, carry) for line_no in (1, 2)
    )
    assert first.key != second.key
    assert len({reading.key for reading in TODAY}) == len(TODAY)


def test_thoughts_and_answers_are_told_apart() -> None:
    thought, answer = of_type("ContentPart")
    assert (thought.kind, thought.text) == ("reasoning", "The hive scale logs grams.")
    assert (answer.kind, answer.actor) == ("message", "assistant")


def test_inputs_are_text_even_cut_short() -> None:
    whole, cut = of_type("ToolCall")
    assert (whole.text, whole.tool_name) == ("tail -n 5 scale.log", "Shell")
    assert cut.text == '{"path": "scale.lo'


def test_name_and_outcome_stand_on_the_result() -> None:
    rejected, done = of_type("ToolResult")
    assert (rejected.tool_name, rejected.op_status, rejected.tool_error) == ("Shell", "error", True)
    assert rejected.text == "The tool call is rejected by the user."
    assert (done.tool_name, done.tool_call_id, done.tool_error) == ("ReadFile", "tool_h2", False)
    assert done.text == "4200 g\n1 line read"


def test_tokens_are_counted_once_for_each_answer() -> None:
    usages = [event.usage for event in of_type("StatusUpdate")]
    assert usages == [TokenUsage(input=70, output=9, cache_read=30, cache_write=4), None]


def test_hooks_notices_and_answers_to_the_client_are_searchable_and_no_turns() -> None:
    assert of_type("HookResolved")[0].text == "PreToolUse\nShell\nno writes to the hive"
    assert of_type("HookResolved")[0].op_status == "block"
    assert of_type("Notification")[0].text == "Task finished\nThe scrape is complete."
    assert of_type("ApprovalResponse")[0].text == "use head instead"
    assert of_type("PlanDisplay")[0].text.endswith("1. Weigh the hive")
    assert of_type("BtwEnd")[0].text == "A box for honey."
    answers = read_one("QuestionResponse", {"request_id": "q", "answers": {"Which?": "The red"}})
    assert (answers.text, answers.actor) == ("The red", "user")


def test_pictures_are_no_text_but_their_addresses_are() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "https://hive.example/frame.png"}}, "look"]
    assert read_one("TurnBegin", {"user_input": parts}).text == (
        "https://hive.example/frame.png\nlook"
    )


def test_a_call_asked_of_the_client_is_a_mirror() -> None:
    reader, carry, file = KimiCliReader(), Carry(), SourceFile("/k/s/wire.jsonl")
    call = {"id": "t", "function": {"name": "Shell", "arguments": None}}
    record = {"timestamp": 1, "message": {"type": "ToolCall", "payload": call}}
    again = {"id": "t", "name": "Shell", "arguments": '{"command":"ls"}'}
    reader.read(record, b"1", 1, file, carry)
    record = {"timestamp": 2, "message": {"type": "ToolCallRequest", "payload": again}}
    assert reader.read(record, b"2", 2, file, carry).events[0].is_mirror


def test_what_a_subagent_says_on_its_parents_wire_is_labelled() -> None:
    first, second = [r for r in TODAY if r.record_type == "SubagentEvent"]
    (told,) = first.events
    assert (told.text, told.is_substream, told.agent_label) == (
        "Two hives lost weight.",
        True,
        "a5c0ffee",
    )
    assert told.is_mirror
    assert first.links == (Link("block:0", "subagent_parent", "tool_h3"),)
    (call,) = second.events
    assert (call.tool_name, call.text, call.is_mirror) == ("Grep", "queen", False)
    assert second.links == (Link("block:0", "subagent_parent", "tool_h4"),)


def test_a_subagents_own_wire_is_part_of_its_parents_session() -> None:
    readings = read(FOLDER / "subagents" / "a5c0ffee" / "wire.jsonl")
    assert not {reading.key for reading in readings} & {reading.key for reading in TODAY}
    for reading in readings:
        assert reading.session_id == SESSION
        assert reading.links == (Link("block:0", "subagent_parent", SESSION),)
        assert reading.events[0].agent_label == "a5c0ffee"
        assert not reading.events[0].is_turn
    assert readings[-1].events[0].usage


def test_unknown_messages_are_kept() -> None:
    (event,) = of_type("WaggleDance")
    assert event.kind == "unknown"
    assert event.text == "a message nobody knows yet"


def test_moments_are_read_from_seconds() -> None:
    assert TODAY[0].timestamp_ms == 0
    assert TODAY[1].timestamp_ms == 1772000002125


def test_the_state_beside_a_wire_names_its_session(tmp_path: Path) -> None:
    (reading,) = KimiStateReader().read_all(SourceFile(str(FOLDER / "state.json")))
    assert (reading.session_id, reading.key) == (SESSION, "state")
    assert reading.events[0].title == "Honey flow chart"
    for content in ("{}", "[", "[]", '{"custom_title": null}'):
        path = tmp_path / "state.json"
        path.write_text(content)
        assert list(KimiStateReader().read_all(SourceFile(str(path)))) == []
