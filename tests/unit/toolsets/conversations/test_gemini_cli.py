from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.gemini_cli import GeminiCliReader
from cortex.toolsets.conversations.sources.reader import SourceFile

FIXTURES = Path(__file__).parent / "fixtures" / "gemini-cli"
SESSION = "7b0f4c1e-52aa-4c0e-9a55-3f7de2b80011"
CHATS = FIXTURES / "4f1c9a7be0d2" / "chats"
JOURNAL = CHATS / "session-2026-02-03T10-00-7b0f4c1e.jsonl"
SUBAGENT = CHATS / SESSION / "finder-91c2e7.jsonl"
DOCUMENT = FIXTURES / "5d0c" / "chats" / "session-2025-10-02T08-30-c0ffee00.json"


def read(path: Path) -> dict[str, Reading]:
    return {reading.key: reading for reading in GeminiCliReader().read_all(SourceFile(str(path)))}


def read_records(folder: Path, *records: dict[str, Any]) -> list[Reading]:
    path = folder / "session-x.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, records)))
    return list(read(path).values())


TODAY = read(JOURNAL)


def events_of(message_id: str) -> tuple[Event, ...]:
    return TODAY[f"id:{message_id}"].events


def test_only_a_persons_own_prompts_are_turns() -> None:
    turns = [event.text for reading in TODAY.values() for event in reading.events if event.is_turn]
    assert turns == ["Why does the kiln profile ignore @glaze.toml?", "continue", "continue"]


def test_what_the_client_adds_to_a_prompt_is_context() -> None:
    (surroundings,) = events_of("0e6f0000000000000000000000000001")
    assert (surroundings.kind, surroundings.actor) == ("turn_context", "system")
    prompt, files = events_of("m-user-1")
    assert prompt.kind == "message"
    assert files.kind == "turn_context"
    assert "cone = 6" in files.text


def test_a_message_that_grew_is_one_reading_in_its_last_form() -> None:
    """Trap: a journal says a message again for each tool that ends."""
    events = events_of("m-gem-1")
    assert [event.slot for event in events] == [
        "thought:0",
        "text",
        "call:0",
        "result:0",
        "call:1",
        "result:1",
    ]
    assert [event.block for event in events] == list(range(6))
    assert [event.kind for event in events][:3] == ["reasoning", "message", "tool_call"]


def test_thoughts_inputs_and_outputs_are_text() -> None:
    thought, answer, call, result, *_ = events_of("m-gem-1")
    assert thought.text == "Locating the profile\nThe cone value may be parsed as text."
    assert answer.text == "I will read the profile."
    assert call.text == "/home/ada/kiln/glaze.toml"
    assert result.text == 'cone = 6\nramp = "slow"'


def test_name_and_outcome_stand_on_call_and_result() -> None:
    *_, call, result = events_of("m-gem-1")
    for event in (call, result):
        assert event.tool_name == "run_shell_command"
        assert event.tool_call_id == "run_shell_command-1770113403-b2"
        assert event.op_status == "error"
    assert (call.tool_phase, result.tool_phase) == ("request", "response")
    assert result.tool_error
    assert result.text == "kilnctl: unknown flag --strict"


def test_results_sent_back_to_the_model_are_mirrors() -> None:
    assert all(event.is_mirror for event in events_of("m-user-2"))
    assert not any(event.is_turn for event in events_of("m-user-2"))


def test_a_result_that_stands_nowhere_else_is_no_mirror(tmp_path: Path) -> None:
    answer = {"functionResponse": {"id": "x", "name": "grep", "response": {"output": "one hit"}}}
    record = {"id": "u", "type": "user", "timestamp": 1, "content": [answer]}
    (_, reading) = read_records(tmp_path, record)
    assert [(e.kind, e.text, e.is_mirror) for e in reading.events] == [
        ("tool_result", "one hit", False)
    ]


def test_tokens_are_counted_once_for_each_answer() -> None:
    usages = [e.usage for reading in TODAY.values() for e in reading.events if e.usage]
    assert usages == [
        TokenUsage(input=600, output=65, cache_read=300, reasoning=25),
        TokenUsage(input=1000, output=12),
    ]


def test_a_history_told_again_changes_nothing() -> None:
    assert "shortened" not in "".join(e.text for r in TODAY.values() for e in r.events)


def test_the_summary_names_the_session() -> None:
    (event,) = TODAY["session"].events
    assert event.kind == "session_meta"
    assert event.title == "Kiln profile reads the cone as a number"
    assert "Compared glaze profiles" in event.text


def test_what_was_taken_back_stays_and_the_rewind_is_told() -> None:
    assert events_of("m-user-3")[0].text == "continue"
    (rewind,) = [reading for reading in TODAY.values() if reading.record_type == "rewind"]
    assert rewind.events[0].kind == "system"


def test_notices_and_unknown_messages_are_kept() -> None:
    (notice,) = events_of("m-info-1")
    assert (notice.kind, notice.payload_type) == ("system", "info")
    (unknown,) = events_of("m-new-1")
    assert (unknown.kind, unknown.payload_type) == ("unknown", "hologram")
    assert orjson.loads(unknown.payload_json)["content"] == unknown.text


def test_a_message_is_kept_as_it_was_written_once() -> None:
    written = {
        r["id"]: r for r in map(orjson.loads, JOURNAL.read_bytes().splitlines()) if "id" in r
    }
    for name, record in written.items():
        first, *others = events_of(name)
        assert orjson.loads(first.payload_json) == record
        assert not any(event.payload_json for event in others)


def test_the_project_is_known_from_the_file_beside_the_chats() -> None:
    assert {reading.cwd for reading in TODAY.values()} == {"/home/ada/kiln"}


def test_a_subagent_is_a_labelled_part_of_its_parents_session() -> None:
    readings = read(SUBAGENT)
    for reading in readings.values():
        assert reading.session_id == SESSION
        assert reading.key.startswith("finder-91c2e7/")
        assert reading.links == (Link(reading.events[0].slot, "subagent_parent", SESSION),)
        for event in reading.events:
            assert event.is_substream
            assert event.agent_label == "finder-91c2e7"
            assert not event.is_turn


def test_a_document_of_the_first_versions_is_read() -> None:
    readings = read(DOCUMENT)
    assert list(readings) == ["session", "id:o-1", "id:o-2"]
    _, _, call, result = readings["id:o-2"].events
    assert call.text == "/srv/tide/schema.sql\ncreate table tide\ncreate table tides"
    assert result.op_status == "cancelled"
    assert result.text == "-create table tide\n+create table tides\nschema.sql"


def test_a_document_taken_over_into_a_journal_has_the_same_keys(tmp_path: Path) -> None:
    document = orjson.loads(DOCUMENT.read_bytes())
    head = {name: value for name, value in document.items() if name != "messages"}
    readings = read_records(tmp_path, head, *document["messages"])
    assert [r.key for r in readings] == list(read(DOCUMENT))
    assert [r.events for r in readings] == [r.events for r in read(DOCUMENT).values()]


def test_a_line_half_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "session-y.jsonl"
    path.write_bytes(JOURNAL.read_bytes()[:-20])
    assert read(path).keys() == TODAY.keys()
    assert read(path)["session"].events[0].title == ""


def test_messages_without_ids_are_told_apart_by_their_place(tmp_path: Path) -> None:
    twice = {"type": "user", "content": "continue", "timestamp": "no time"}
    _, first, second = read_records(tmp_path, twice, twice)
    assert first.key != second.key
    assert first.bad_timestamp == "no time"


def test_calls_and_thoughts_that_stand_among_the_parts_are_read(tmp_path: Path) -> None:
    call = {"functionCall": {"id": "c", "name": "glob", "args": {"pattern": "*.toml"}}}
    parts = [{"text": "look around", "thought": True}, call]
    _, reading = read_records(tmp_path, {"id": "g", "type": "gemini", "content": parts})
    assert [(e.kind, e.text, e.tool_name) for e in reading.events] == [
        ("reasoning", "look around", ""),
        ("tool_call", "*.toml", "glob"),
    ]


def test_a_message_of_which_nothing_is_understood_is_kept(tmp_path: Path) -> None:
    record = {"id": "u", "type": "user", "content": [{"functionResponse": "odd"}]}
    _, reading = read_records(tmp_path, record)
    assert [event.kind for event in reading.events] == ["unknown"]
    assert "odd" in reading.events[0].payload_json


def test_a_nudge_by_the_client_is_no_turn_but_a_persons_words_are(tmp_path: Path) -> None:
    said = ["Please continue.", "Please continue. But slowly"]
    records = [{"id": text, "type": "user", "content": [{"text": text}]} for text in said]
    _, *readings = read_records(tmp_path, *records)
    assert [reading.events[0].is_turn for reading in readings] == [False, True]
