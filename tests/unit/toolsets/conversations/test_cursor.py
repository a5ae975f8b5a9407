import json
import sqlite3
from pathlib import Path

import pytest

from cortex.toolsets.conversations.models import Carry, Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.cursor import CursorReader
from cortex.toolsets.conversations.sources.cursor_state import CursorStateReader
from cortex.toolsets.conversations.sources.reader import SourceFile
from cortex.toolsets.conversations.sources.sqlite_file import SourceUnreadable

FIXTURES = Path(__file__).parent / "fixtures" / "cursor"
HOME = "/home/dev/.cursor/projects/home-dev-shop/agent-transcripts"
STATE = CursorStateReader()


def lines(path: str = f"{HOME}/s-1/s-1.jsonl") -> list[Reading]:
    carry = Carry()
    raws = (FIXTURES / "transcript.jsonl").read_bytes().splitlines()
    return [
        CursorReader().read(json.loads(raw), raw, number, SourceFile(path), carry)
        for number, raw in enumerate(raws, 1)
    ]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state.vscdb"
    connection = sqlite3.connect(path)
    connection.executescript((FIXTURES / "state.sql").read_text())
    connection.close()
    return path


def read(path: Path, since: str = "") -> dict[str, Reading]:
    readings = list(STATE.read_all(SourceFile(str(path)), since))
    found = {reading.key.removeprefix("id:"): reading for reading in readings}
    assert len(found) == len(readings), "keys differ"
    return found


def put(path: Path, key: str, value: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, json.dumps(value)))
    connection.commit()
    connection.close()


def only(reading: Reading) -> Event:
    (event,) = reading.events
    return event


def test_a_transcript_is_a_session_named_by_its_file() -> None:
    assert {reading.session_id for reading in lines()} == {"s-1"}


def test_a_prompt_is_taken_out_of_what_cursor_wraps_around_it() -> None:
    context, prompt = lines()[0].events
    assert (context.kind, context.is_turn, "basket.py" in context.text) == (
        "turn_context",
        False,
        True,
    )
    assert (prompt.text, prompt.is_turn, prompt.actor) == ("why is the total wrong?", True, "user")


def test_blocks_of_a_line_keep_their_order_and_say_all_they_have() -> None:
    thought, answer, call = lines()[1].events
    assert [event.block for event in (thought, answer, call)] == [0, 1, 2]
    assert (thought.kind, thought.text) == ("reasoning", "Look at the loop first.")
    assert (answer.kind, answer.actor) == ("message", "assistant")
    assert (call.kind, call.tool_name, call.text) == (
        "tool_call",
        "Shell",
        "pytest -q\n/home/dev/shop",
    )


def test_a_result_has_the_name_of_its_tool_with_an_id_and_without() -> None:
    found = lines()
    failed, read_file = only(found[2]), only(found[6])
    assert (failed.tool_name, failed.tool_error, failed.text) == ("Shell", True, "1 failed")
    assert (read_file.tool_name, read_file.op_status, read_file.is_turn) == (
        "Read",
        "completed",
        False,
    )
    assert found[6].links == (Link("block:0", "tool_use_id", "t1"),)


def test_equal_lines_without_id_and_moment_are_two_records() -> None:
    first, second = lines()[3:5]
    assert only(first).text == only(second).text == "continue"
    assert first.key != second.key
    assert [reading.key for reading in lines()] == [reading.key for reading in lines()]


def test_ids_moments_models_and_usage_are_used_where_there_are_some() -> None:
    reading = lines()[5]
    assert (reading.key, reading.timestamp_ms) == ("id:u-6", 1789997600000)
    assert [event.usage for event in reading.events] == [TokenUsage(12, 3), None, None]
    assert {event.model for event in reading.events} == {"model-y"}
    assert lines()[8].bad_timestamp == "yesterday"


def test_unknown_blocks_and_records_are_kept_as_unknown() -> None:
    found = lines()
    strange = found[5].events[1]
    assert (strange.kind, strange.payload_type, strange.text) == (
        "unknown",
        "hologram",
        "from the side",
    )
    ended = only(found[7])
    assert (ended.kind, ended.payload_type, ended.op_status) == ("unknown", "turn_ended", "error")
    assert "overloaded" in ended.text


def test_a_subagents_transcript_is_linked_to_its_parent_once_and_has_no_turns() -> None:
    found = lines(f"{HOME}/s-1/subagents/s-2.jsonl")
    links = [link for reading in found for link in reading.links]
    assert [link.target for link in links if link.link_type == "subagent_parent"] == ["s-1"]
    assert all(event.is_substream for reading in found for event in reading.events)
    assert not any(event.is_turn for reading in found for event in reading.events)


def test_a_conversation_has_its_name_and_folder(state: Path) -> None:
    reading = read(state)["c-1"]
    event = only(reading)
    assert (event.kind, event.title, event.text) == (
        "session_meta",
        "Basket total",
        "Basket total — Edited basket.py",
    )
    assert (reading.cwd, event.model) == ("/home/dev/shop", "model-y")


def test_bubbles_come_in_the_order_of_the_conversation(state: Path) -> None:
    found = [key for key, r in read(state).items() if r.session_id == "c-1"]
    assert found == ["c-1", "b-9", "b-2", "b-3", "b-5", "b-6", "b-7"]


def test_a_prompt_may_stand_in_rich_text_only(state: Path) -> None:
    event = only(read(state)["b-9"])
    assert (event.text, event.is_turn, event.actor) == ("why is the total wrong?", True, "user")


def test_a_bubble_says_thought_and_answer_and_its_tokens_once(state: Path) -> None:
    thought, answer = read(state)["b-2"].events
    assert (thought.kind, thought.text, thought.usage) == (
        "reasoning",
        "The loop ends early.",
        TokenUsage(20, 6),
    )
    assert (answer.text, answer.block, answer.usage, answer.model) == (
        "One item is skipped.",
        1,
        None,
        "model-z",
    )


def test_a_tool_bubble_is_a_call_and_a_result_with_name_and_outcome(state: Path) -> None:
    reading = read(state)["b-3"]
    call, result = reading.events
    assert "pytest -q" in call.text
    assert "run the tests" in call.text
    assert (result.kind, result.text) == ("tool_result", "exit code 1")
    for event in (call, result):
        assert (event.tool_name, event.tool_call_id) == ("run_terminal_command_v2", "call_1")
        assert (event.tool_error, event.op_status) == (True, "error")
    assert reading.links == (Link("result", "tool_use_id", "call_1"),)
    assert reading.timestamp_ms == read(state)["b-2"].timestamp_ms, "it follows the one before"


def test_conversations_of_older_versions_and_of_subagents_are_read(state: Path) -> None:
    found = read(state)
    assert only(found["o-2"]).text == "there are three"
    assert found["c-2"].links == (Link("composer", "subagent_parent", "c-1"),)
    assert (only(found["o-1"]).is_substream, only(found["o-1"]).is_turn) == (True, False)


def test_strange_and_ownerless_bubbles_are_kept_and_empty_drafts_are_not(state: Path) -> None:
    found = read(state)
    assert (only(found["b-7"]).kind, only(found["b-7"]).text) == ("unknown", "a kind of tomorrow")
    assert only(found["z-1"]).text == "nobody owns this answer"
    assert "c-3" not in found


def test_since_gives_conversations_that_changed(state: Path) -> None:
    file = SourceFile(str(state))
    for number in range(100):
        put(state, f"bubbleId:c-5:n-{number}", {"type": 1, "text": "later"})
    put(state, "composerData:c-5", {"name": "A week later", "lastUpdatedAt": 1790600000000})
    position = STATE.position(file)
    assert {r.session_id for r in read(state, position).values()} == {"c-5"}
    put(state, "bubbleId:c-2:o-3", {"type": 2, "text": "a new answer"})
    assert {r.session_id for r in read(state, position).values()} == {"c-2", "c-5"}
    assert len(read(state, "999999:1790600000000")) == len(read(state)), "numbered anew"


def test_a_database_without_the_table_says_nothing_and_rubbish_says_why(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    sqlite3.connect(path).close()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ItemTable (key TEXT, value BLOB)")
    connection.close()
    assert not read(path)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(SourceUnreadable):
        read(path)
