from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.conversations.models import Carry, Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.copilot_cli import (
    CopilotCliReader,
    CopilotWorkspaceReader,
)
from cortex.toolsets.conversations.sources.reader import SourceFile

STATE = Path(__file__).parent / "fixtures" / "copilot-cli" / "session-state"
SESSION = "d3b07384-d9a0-4c9b-8f3e-6f1d2a5c9e10"
IMPORTED = "8f14e45f-ceea-467f-a9a0-2b1c3d4e5f60"


def read_lines(lines: list[bytes], path: str) -> dict[str, Reading]:
    reader, carry, file = CopilotCliReader(), Carry(), SourceFile(path)
    readings = [
        reader.read(orjson.loads(raw), raw, line_no, file, carry)
        for line_no, raw in enumerate(lines, 1)
    ]
    return {reading.key: reading for reading in readings}


def read(path: Path) -> dict[str, Reading]:
    return read_lines(path.read_bytes().splitlines(keepends=True), str(path))


def read_data(*events: tuple[str, dict[str, Any]]) -> list[tuple[Event, ...]]:
    lines = [orjson.dumps({"type": kind, "data": data}) for kind, data in events]
    return [reading.events for reading in read_lines(lines, "/c/s/events.jsonl").values()]


TODAY = read(STATE / SESSION / "events.jsonl")


def events_of(event_id: str) -> tuple[Event, ...]:
    return TODAY[f"id:{event_id}"].events


def event_of(event_id: str) -> Event:
    (event,) = events_of(event_id)
    return event


def test_only_a_persons_own_prompts_are_turns() -> None:
    turns = [event.text for reading in TODAY.values() for event in reading.events if event.is_turn]
    assert turns == ["Why is the gnomon off by an hour?", "continue", "continue"]


def test_skills_autopilot_and_notices_are_context() -> None:
    assert (event_of("c-20").kind, event_of("c-20").payload_type) == (
        "turn_context",
        "skill-sundials",
    )
    assert event_of("c-21").payload_type == "autopilot"
    assert event_of("c-26").kind == "system"
    assert "shadow is shortest" in event_of("c-25").text


def test_what_is_sent_with_a_prompt_stands_beside_it() -> None:
    prompt, sent, attached = events_of("c-03")
    assert prompt.text == "Why is the gnomon off by an hour?"
    assert (sent.kind, sent.is_mirror) == ("turn_context", True)
    assert attached.text == "gnomon.py\n/home/ada/sundial/gnomon.py"


def test_an_answer_keeps_the_order_of_its_blocks() -> None:
    events = events_of("c-06")
    assert [event.slot for event in events] == ["reasoning", "text", "call:0", "call:1"]
    assert [event.block for event in events] == [0, 1, 2, 3]
    assert events[2].text == "rg utcoffset gnomon.py\nFind the offset\nsearch the offset"
    assert events[3].text == "explore\nList every time zone"


def test_a_thought_and_a_call_told_twice_are_mirrors_the_second_time() -> None:
    assert not event_of("c-05").is_mirror
    assert events_of("c-06")[0].is_mirror
    assert event_of("c-07").is_mirror
    assert not event_of("c-24").is_mirror
    assert event_of("c-24").actor == "user"


def test_name_and_outcome_stand_on_the_result() -> None:
    done, denied = event_of("c-12"), event_of("c-17")
    assert (done.tool_name, done.op_status, done.tool_error) == ("bash", "success", False)
    assert done.text == "3: utcoffset + dst"
    assert (denied.tool_name, denied.op_status, denied.tool_error) == ("task", "denied", True)
    assert denied.text == "The agent was stopped"


def test_tokens_are_counted_once_for_each_answer_and_run() -> None:
    """Chunks of one response repeat its count; what was read stands at the end of a run only."""
    usages = [e.usage for reading in TODAY.values() for e in reading.events if e.usage]
    assert usages == [
        TokenUsage(output=64),
        TokenUsage(output=5),
        TokenUsage(input=400, cache_read=600, cache_write=100, reasoning=12),
    ]
    assert not any(e.usage for r in TODAY.values() for e in r.events if e.is_mirror)


def test_tokens_of_a_thought_told_before_are_not_lost() -> None:
    _, events = read_data(
        ("assistant.reasoning", {"content": "noon"}),
        ("assistant.message", {"content": "", "reasoningText": "noon", "outputTokens": 3}),
    )
    assert [(e.is_mirror, e.usage) for e in events] == [(True, None), (False, TokenUsage(output=3))]


def test_a_subagent_is_labelled_and_linked_to_the_call_that_started_it() -> None:
    event = event_of("c-15")
    assert (event.is_substream, event.agent_label) == (True, "explore")
    assert TODAY["id:c-15"].links == (
        Link("text", "parent_event", "c-14"),
        Link("text", "subagent_parent", "toolu_g2"),
    )
    assert event_of("c-14").text == "Explore\nexplore\nFinds things"


def test_a_subagents_prompt_is_no_turn() -> None:
    (events,) = read_data(("user.message", {"content": "go", "parentToolCallId": "t"}))
    assert not events[0].is_turn


def test_hooks_and_permissions_are_events() -> None:
    assert event_of("c-11").kind == "event_msg"
    assert "noon is at the mark" in event_of("c-11").text
    assert event_of("c-08").is_mirror


def test_compaction_errors_and_aborts_are_told() -> None:
    assert (event_of("c-29").kind, event_of("c-29").text) == (
        "summary",
        "The gnomon adds daylight saving twice.",
    )
    assert (event_of("c-30").kind, event_of("c-30").op_status) == ("system", "rate_limit")
    assert event_of("c-31").op_status == "user_initiated"


def test_model_and_project_are_carried() -> None:
    assert event_of("c-12").model == "claude-sonnet-4.5"
    assert event_of("c-29").model == "gpt-5.2"
    assert {reading.cwd for reading in TODAY.values()} == {"/home/ada/sundial"}
    assert {reading.session_id for reading in TODAY.values()} == {SESSION}


def test_unknown_events_are_kept() -> None:
    event = event_of("c-32")
    assert (event.kind, event.payload_type) == ("unknown", "session.analemma")
    assert event.text == "an event nobody knows yet"


def test_a_session_of_the_first_versions_is_told_from_its_import() -> None:
    (reading,) = read(STATE / f"{IMPORTED}.jsonl").values()
    assert reading.session_id == IMPORTED
    assert [(e.kind, e.text, e.tool_name) for e in reading.events] == [
        ("system", "You are a terminal assistant.", ""),
        ("message", "wind the clock", ""),
        ("message", "Winding.", ""),
        ("tool_call", "wind --turns 7", "bash"),
        ("tool_result", "wound", "bash"),
    ]
    assert [e.is_turn for e in reading.events] == [False, True, False, False, False]


def test_a_patch_given_as_text_is_searchable() -> None:
    (events,) = read_data(
        ("tool.execution_start", {"toolCallId": "p", "toolName": "apply_patch", "arguments": "{+x"})
    )
    assert events[0].text == "{+x"


def test_results_without_plain_content_tell_their_blocks() -> None:
    result = {"contents": [{"type": "text", "text": "noon"}, {"type": "image", "data": "AAAA"}]}
    (events,) = read_data(("tool.execution_complete", {"success": True, "result": result}))
    assert events[0].text == "noon"


def test_a_title_names_the_session() -> None:
    (events,) = read_data(("session.title_changed", {"title": "Noon"}))
    assert (events[0].kind, events[0].title) == ("session_meta", "Noon")


def test_the_workspace_beside_the_events_names_their_session(tmp_path: Path) -> None:
    path = STATE / SESSION / "workspace.yaml"
    (reading,) = CopilotWorkspaceReader().read_all(SourceFile(str(path)))
    assert (reading.session_id, reading.key) == (SESSION, "workspace")
    assert (reading.events[0].title, reading.cwd) == ("Gnomon off by an hour", "/home/ada/sundial")
    (tmp_path / "workspace.yaml").write_text("id: x\n\x00: [\n")
    assert not list(CopilotWorkspaceReader().read_all(SourceFile(str(tmp_path / "workspace.yaml"))))
