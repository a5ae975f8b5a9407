import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.toolsets.conversations.models import Event, Link, Reading, TokenUsage
from cortex.toolsets.conversations.sources.opencode import OpencodeReader
from cortex.toolsets.conversations.sources.reader import SourceFile
from cortex.toolsets.conversations.sources.sqlite_file import SourceUnreadable

FIXTURES = Path(__file__).parent / "fixtures" / "opencode"
READER = OpencodeReader()

OWNER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.executescript(open(sys.argv[2]).read())
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "close":
        connection.close()
        print("closed", flush=True)
        break
    print(connection.execute(line).fetchall(), flush=True)
"""


class Owner:
    """Another process that has the database open in WAL mode and writes to it."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", OWNER, str(path), str(FIXTURES / "database.sql")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def run(self, line: str) -> str:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    running = Owner(tmp_path / "opencode.db")
    yield running
    running.stop()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.db"
    connection = sqlite3.connect(path)
    connection.executescript((FIXTURES / "database.sql").read_text())
    connection.close()
    return path


def read(path: Path, since: str = "") -> dict[str, Reading]:
    readings = list(READER.read_all(SourceFile(str(path)), since))
    found = {reading.key.removeprefix("id:"): reading for reading in readings}
    assert len(found) == len(readings), "keys differ"
    return found


def only(reading: Reading) -> Event:
    (event,) = reading.events
    return event


def folder_state(path: Path) -> dict[str, tuple[str, int]]:
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in path.parent.iterdir()
    }


def add_part(number: int, text: str = "said later") -> str:
    data = json.dumps({"type": "text", "text": f"{text} {number}"})
    now = 1790000010000 + number
    return f"INSERT INTO part VALUES ('prt_x{number}','msg_7','ses_a',{now},{now},'{data}')"


def test_a_session_has_its_title_folder_and_model(database: Path) -> None:
    reading = read(database)["ses_a"]
    event = only(reading)
    assert (event.kind, event.text, event.title) == ("session_meta", *["Fix the basket total"] * 2)
    assert (reading.cwd, event.model, reading.timestamp_ms) == (
        "/home/dev/shop",
        "model-x",
        1790000000000,
    )


def test_a_subagent_is_linked_to_its_parent_labelled_and_never_a_turn(database: Path) -> None:
    found = read(database)
    child = found["ses_b"]
    assert child.links == (Link("session", "subagent_parent", "ses_a"),)
    assert (only(child).is_substream, only(child).title) == (True, "")
    prompt = only(found["prt_50"])
    assert (prompt.is_substream, prompt.agent_label, prompt.is_turn) == (True, "explore", False)


def test_turns_are_a_persons_own_prompts_once_for_each_message(database: Path) -> None:
    found = read(database)
    turns = [key for key, r in found.items() for event in r.events if event.is_turn]
    assert turns == ["prt_11", "prt_60", "prt_70"]
    assert only(found["prt_10"]).kind == "turn_context"
    assert only(found["prt_13"]).text == "and please add a test"


def test_two_equal_prompts_are_two_records(database: Path) -> None:
    assert [only(read(database)[key]).text for key in ("prt_60", "prt_70")] == ["continue"] * 2


def test_reasoning_answers_files_and_patches_are_text(database: Path) -> None:
    found = read(database)
    assert (only(found["prt_21"]).kind, only(found["prt_21"]).text) == (
        "reasoning",
        "The sum skips the last item.",
    )
    answer = only(found["prt_25"])
    assert (answer.kind, answer.actor, answer.model) == ("message", "assistant", "model-x")
    assert "basket.py" in only(found["prt_12"]).text
    assert only(found["prt_26"]).text == "/home/dev/shop/basket.py"


def test_a_tool_call_and_its_result_both_have_name_and_outcome(database: Path) -> None:
    found = read(database)
    call, result = found["prt_22"].events
    assert (call.kind, call.block, call.tool_phase) == ("tool_call", 0, "request")
    assert call.text == "pytest -q basket_test.py\nRun the tests"
    assert (result.kind, result.block, result.text) == ("tool_result", 1, "1 failed: off by one")
    for event in (call, result):
        assert (event.tool_name, event.tool_call_id, event.op_status) == (
            "bash",
            "call_1",
            "completed",
        )
        assert event.tool_error, "it ended with 1"
    assert found["prt_22"].links == (Link("result", "tool_use_id", "call_1"),)
    assert found["prt_23"].events[1].text == "File not found"
    assert found["prt_23"].events[1].tool_error


def test_a_tool_that_still_runs_has_no_result_yet(database: Path) -> None:
    call = only(read(database)["prt_24"])
    assert (call.text, call.op_status) == ("total\\(", "running")


def test_tokens_are_counted_once_for_each_response(database: Path) -> None:
    found = read(database)
    usages = {
        key: e.usage for key, r in found.items() for e in r.events if e.usage and e.usage.input
    }
    assert usages == {
        "prt_27": TokenUsage(40, 9, cache_read=7, cache_write=1, reasoning=3),
        "msg_4": TokenUsage(5, 2),
    }


def test_compaction_errors_and_summaries_are_kept(database: Path) -> None:
    found = read(database)
    assert only(found["prt_30"]).kind == "compacted_raw"
    assert (only(found["prt_40"]).kind, only(found["prt_40"]).text) == (
        "summary",
        "So far: one bug found.",
    )
    assert "overloaded, gave up" in found["msg_4"].events[0].text
    assert only(found["msg_1"]).text == "Basket total"


def test_unknown_and_broken_parts_are_kept_as_unknown(database: Path) -> None:
    found = read(database)
    strange = only(found["prt_41"])
    assert (strange.kind, strange.payload_type, strange.text) == (
        "unknown",
        "hologram",
        "seen from the side",
    )
    broken = only(found["prt_42"])
    assert (broken.kind, broken.text) == ("unknown", '{"type":"text","text":')


def test_records_stand_in_the_order_they_were_said(database: Path) -> None:
    times = [r.timestamp_ms for r in read(database).values() if r.session_id == "ses_a"]
    assert times == sorted(times)
    assert all(times)


def test_since_gives_only_messages_that_changed(database: Path) -> None:
    file = SourceFile(str(database))
    position = READER.position(file)
    assert list(read(database, position)) == ["ses_a"], "the newest moment is read again"
    connection = sqlite3.connect(database)
    connection.execute(add_part(1))
    connection.commit()
    connection.close()
    assert list(read(database, str(int(position) + 1))) == ["prt_70", "prt_x1"]
    assert not read(database, "1790000099999")


def test_the_newer_message_table_is_read_and_marked_where_it_repeats(database: Path) -> None:
    connection = sqlite3.connect(database)
    content = [
        {"type": "text", "text": "hello from the new table"},
        {"type": "tool", "id": "c9", "name": "bash", "state": {"status": "completed"}},
    ]
    rows = [
        ("sm_1", "ses_new", "user", 1, {"text": "a new prompt"}),
        ("sm_2", "ses_new", "assistant", 2, {"content": content, "tokens": {"input": 4}}),
        ("sm_3", "ses_new", "model-switched", 3, {"model": {"id": "other-model"}}),
        ("sm_4", "ses_a", "user", 1, {"text": "why is the basket total wrong?"}),
    ]
    for *row, data in rows:
        values = (*row, 1790000020000, 1790000020000, json.dumps(data))
        connection.execute("INSERT INTO session_message VALUES (?,?,?,?,?,?,?)", values)
    connection.commit()
    connection.close()
    found = read(database)
    assert only(found["sm_1:0"]).is_turn
    assert only(found["sm_2"]).usage == TokenUsage(4)
    assert only(found["sm_2:0"]).text == "hello from the new table"
    assert [e.tool_name for e in found["sm_2:1"].events] == ["bash", "bash"]
    assert only(found["sm_3:0"]).payload_type == "model-switched"
    assert (only(found["sm_4:0"]).is_mirror, only(found["sm_4:0"]).is_turn) == (True, False)


def test_an_export_gives_the_keys_of_the_database(database: Path) -> None:
    exported = read(FIXTURES / "export.json")
    stored = read(database)
    assert only(exported["ses_a"]).title == "Fix the basket total"
    for key in ("prt_11", "prt_22"):
        mine, theirs = exported[key].events[0], stored[key].events[0]
        assert (mine.kind, mine.slot, mine.is_turn) == (theirs.kind, theirs.slot, theirs.is_turn)
    assert only(exported["msg_2"]).usage == TokenUsage(
        40, 9, cache_read=7, cache_write=1, reasoning=3
    )
    assert [only(exported[f"msg_2:{n}"]).text for n in (1, 2)] == ["no id here"] * 2


def test_what_the_owner_wrote_is_read_and_its_folder_is_not_touched(
    owner: Owner, tmp_path: Path
) -> None:
    """The commits are only in the -wal; mode=ro would write into the -shm, immutable miss them."""
    path = tmp_path / "opencode.db"
    before = folder_state(path)
    assert {"opencode.db", "opencode.db-wal", "opencode.db-shm"} == set(before)
    assert "prt_70" in read(path)
    assert folder_state(path) == before
    for number in range(20):
        owner.run(add_part(number))
        before = folder_state(path)
        assert f"prt_x{number}" in read(path)
        assert folder_state(path) == before


def test_the_owner_may_checkpoint_and_close_in_the_middle_of_a_read(
    owner: Owner, tmp_path: Path
) -> None:
    path = tmp_path / "opencode.db"
    readings = READER.read_all(SourceFile(str(path)))
    first = next(readings)
    assert owner.run("PRAGMA wal_checkpoint(TRUNCATE)") == "[(0, 0, 0)]", "nothing holds it back"
    owner.run(add_part(1))
    assert owner.run("close") == "closed"
    assert [file.name for file in tmp_path.iterdir()] == ["opencode.db"], "it could clean up"
    before = folder_state(path)
    assert {"ses_a", "prt_x1"} <= {r.key.removeprefix("id:") for r in (first, *readings)}
    assert folder_state(path) == before


def test_what_a_killed_owner_left_in_its_wal_is_read(owner: Owner, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    owner.run(add_part(1))
    owner.stop()
    before = folder_state(path)
    assert "prt_x1" in read(path)
    assert folder_state(path) == before
    (tmp_path / "opencode.db-shm").unlink()
    before = folder_state(path)
    assert "prt_x1" in read(path)
    assert folder_state(path) == before


def test_tables_and_columns_of_another_version_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE part (id text, message_id text, session_id text, data text)")
    row = ("prt_1", "msg_1", "ses_old", '{"type":"text","text":"from long ago"}')
    connection.execute("INSERT INTO part VALUES (?,?,?,?)", row)
    connection.commit()
    connection.close()
    assert only(read(path)["prt_1"]).text == "from long ago"
    assert READER.position(SourceFile(str(path))) == "0"
    (tmp_path / "empty.db").touch()
    assert not read(tmp_path / "empty.db")


@pytest.mark.parametrize("name", ["opencode.db", "export.json"])
@pytest.mark.parametrize("content", [None, b"not a database at all, " * 200, b"{}"])
def test_a_file_that_is_something_else_has_one_clear_error(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceUnreadable) as caught:
        read(tmp_path / name)
    assert caught.value.reason
    assert "\n" not in str(caught.value)


def test_a_damaged_database_has_one_clear_error(database: Path) -> None:
    content = bytearray(database.read_bytes())
    content[200:] = b"\xff" * (len(content) - 200)
    database.write_bytes(content)
    with pytest.raises(SourceUnreadable):
        read(database)
