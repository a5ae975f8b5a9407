from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Carry, Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.qwen_code import QwenCodeReader
from cortex.toolsets.conversations.sources.reader import SourceFile

PROJECT = Path(__file__).parent / "fixtures" / "qwen-code" / "-home-ada-loom"
SESSION = "5e2d7a90-0c1b-4f7e-8a32-b1d94c6e0f21"


def read_lines(lines: list[bytes], path: str) -> dict[str, Reading]:
    reader, carry, file = QwenCodeReader(), Carry(), SourceFile(path)
    readings = [
        reader.read(orjson.loads(raw), raw, line_no, file, carry)
        for line_no, raw in enumerate(lines, 1)
    ]
    return {reading.key: reading for reading in readings}


def read(path: Path) -> dict[str, Reading]:
    return read_lines(path.read_bytes().splitlines(keepends=True), str(path))


def read_one(record: dict[str, Any]) -> Reading:
    (reading,) = read_lines([orjson.dumps(record)], "/p/chats/x.jsonl").values()
    return reading


TODAY = read(PROJECT / "chats" / f"{SESSION}.jsonl")


def events_of(uuid: str) -> tuple[Event, ...]:
    return TODAY[f"id:{uuid}"].events


def event_of(uuid: str) -> Event:
    (event,) = events_of(uuid)
    return event


def test_only_a_persons_own_prompts_are_turns() -> None:
    turns = [event.text for reading in TODAY.values() for event in reading.events if event.is_turn]
    assert turns == [
        "Find the warp tension bug",
        "keep the sign please",
        "compare with @notes.md",
        "continue",
        "continue",
        "a broken clock",
    ]


def test_notices_and_schedules_are_told_by_the_system() -> None:
    assert (event_of("q-08").kind, event_of("q-08").payload_type) == ("system", "notification")
    assert (event_of("q-09").kind, event_of("q-09").actor) == ("system", "system")


def test_files_put_into_a_prompt_are_context() -> None:
    _, files = events_of("q-10")
    assert files.kind == "turn_context"
    assert "notes say keep" in files.text


def test_parts_keep_their_order() -> None:
    events = events_of("q-04")
    assert [event.block for event in events] == [0, 1, 2, 3, 4]
    assert [(event.kind, event.text) for event in events] == [
        ("reasoning", "The tension may be negative."),
        ("message", "I will search the loom."),
        ("tool_call", "rg tension --glob '*.py'"),
        ("tool_call", "/home/ada/loom/warp.py\nabs(t)\nmax(t, 0)"),
        ("message", "Both are under way."),
    ]


def test_tokens_are_counted_once_for_each_answer() -> None:
    """Trap: usage stood on every block, and telemetry says it again."""
    usages = [e.usage for reading in TODAY.values() for e in reading.events if e.usage]
    assert usages == [TokenUsage(input=150, output=30, cache_read=50, reasoning=8)]


def test_thoughts_counted_beside_the_answer_are_part_of_the_output() -> None:
    counts = {"promptTokenCount": 20, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}
    record = {"type": "assistant", "usageMetadata": {**counts, "totalTokenCount": 27}}
    assert read_one(record).events[0].usage == TokenUsage(input=20, output=7, reasoning=3)


def test_name_and_outcome_stand_on_the_result() -> None:
    done, failed = event_of("q-05"), event_of("q-06")
    assert (done.tool_name, done.tool_call_id) == ("run_shell_command", "call_w1")
    assert (done.op_status, done.tool_error) == ("success", False)
    assert (failed.tool_name, failed.op_status, failed.tool_error) == ("edit", "error", True)
    assert failed.text == "old_string not found\n-abs(t)\n+max(t, 0)\nwarp.py"


def test_a_result_without_a_name_takes_its_calls() -> None:
    call = {"functionCall": {"id": "c", "name": "grep_search", "args": {"pattern": "weft"}}}
    answer = {"functionResponse": {"id": "c", "response": {"output": "none"}}}
    lines = [
        orjson.dumps({"uuid": "1", "type": "assistant", "message": {"parts": [call]}}),
        orjson.dumps({"uuid": "2", "type": "tool_result", "message": {"parts": [answer]}}),
    ]
    assert read_lines(lines, "/p/chats/x.jsonl")["id:2"].events[0].tool_name == "grep_search"


def test_the_title_names_the_session() -> None:
    event = event_of("q-16")
    assert event.kind == "session_meta"
    assert event.title == event.text == "Warp tension keeps its sign"


def test_a_compression_tells_its_summary_and_no_history() -> None:
    event = event_of("q-14")
    assert event.kind == "summary"
    assert event.text == "<state_snapshot>The warp tension keeps its sign.</state_snapshot>"


def test_telemetry_is_a_mirror_without_text() -> None:
    assert event_of("q-03").is_mirror
    assert event_of("q-03").text == ""


def test_snapshots_tell_file_names() -> None:
    for uuid in ("q-02", "q-15"):
        assert event_of(uuid).kind == "file_history_snapshot"
        assert event_of(uuid).text == "/home/ada/loom/warp.py"


def test_commands_are_no_turns() -> None:
    assert event_of("q-13").text == "/stats model"
    assert event_of("q-13").kind == "system"


def test_unknown_records_and_subtypes_are_kept() -> None:
    assert event_of("q-18").kind == event_of("q-19").kind == "unknown"
    assert event_of("q-18").payload_type == "shuttle_state"
    assert event_of("q-19").text == "a record nobody knows yet"
    assert event_of("q-19").payload_type == "spindle"


def test_an_unknown_part_is_kept() -> None:
    record = {"type": "assistant", "message": {"parts": [{"codeExecutionResult": {"x": 1}}]}}
    (event,) = read_one(record).events
    assert (event.kind, event.payload_type) == ("unknown", "codeExecutionResult")


def test_equal_prompts_are_two_readings_and_a_bad_moment_is_told() -> None:
    assert len(TODAY) == 20
    assert TODAY["id:q-20"].bad_timestamp == "half past nine"
    assert TODAY["id:q-20"].timestamp_ms == 0
    prompt = {"type": "user", "timestamp": "2026-01-01T00:00:00Z", "message": {"parts": []}}
    assert len(read_lines([orjson.dumps(prompt)] * 2, "/p/chats/x.jsonl")) == 2


def test_records_are_chained_and_carry_their_project() -> None:
    assert TODAY["id:q-02"].links == (Link("record", "parent_uuid", "q-01"),)
    assert {reading.cwd for reading in TODAY.values()} == {"/home/ada/loom"}
    assert event_of("q-05").item_id == "q-05"


def test_a_subagent_is_a_labelled_part_of_its_parents_session() -> None:
    readings = read(PROJECT / "subagents" / SESSION / "agent-reader-0a1b.jsonl")
    assert readings["id:s-q-01"].links == (Link("text", "subagent_parent", SESSION),)
    for reading in readings.values():
        assert reading.session_id == SESSION
        for event in reading.events:
            assert (event.is_substream, event.agent_label) == (True, "reader")
            assert not event.is_turn


def test_a_record_without_session_belongs_to_its_file() -> None:
    assert read_one({"type": "user"}).session_id == "x"
    subagent = read_lines([b'{"type":"user"}'], "/p/subagents/abc/agent-1.jsonl")
    assert [reading.session_id for reading in subagent.values()] == ["abc"]


def test_what_a_person_saw_of_a_prompt_is_the_turn() -> None:
    parts = [{"text": "Act as the skill says: weave"}]
    record = {
        "type": "user",
        "message": {"parts": parts},
        "systemPayload": {"displayText": "/weave"},
    }
    shown, sent = read_one(record).events
    assert (shown.text, shown.is_turn) == ("/weave", True)
    assert (sent.kind, sent.text) == ("turn_context", "Act as the skill says: weave")
