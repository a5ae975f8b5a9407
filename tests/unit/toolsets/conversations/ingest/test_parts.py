import io
import json
from pathlib import Path

import pytest

from cortex.settings.models import RedactionSettings
from cortex.toolsets.conversations.ingest.backlog import Backlog
from cortex.toolsets.conversations.ingest.batch import Batch, FileDone
from cortex.toolsets.conversations.ingest.clean import Cleaner, parsed
from cortex.toolsets.conversations.ingest.coverage import CoverageBook
from cortex.toolsets.conversations.ingest.fill import LineFiller
from cortex.toolsets.conversations.ingest.ingestor import Task
from cortex.toolsets.conversations.ingest.known import LINE, KnownRecords
from cortex.toolsets.conversations.ingest.plan import Plan, Removal, runs
from cortex.toolsets.conversations.ingest.values import Checkpoint
from cortex.toolsets.conversations.ingest.worker import Worker, _received, _send, serve
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.sources.catalog import source
from fakes import FakeClock

TOKEN = "AKIA" + "IOSFODNN7EXAMPLE"
CLAUDE = source("claude", "claude-code", "/x/*.jsonl")


@pytest.fixture
def cleaner() -> Cleaner:
    return Cleaner(Redactor(RedactionSettings()))


@pytest.mark.parametrize("before", ["\n", "\t", "\r\n", " ", "é\n"])
def test_a_token_is_found_behind_any_white_space(cleaner: Cleaner, before: str) -> None:
    text = json.dumps({"message": {"content": f"look:{before}{TOKEN}"}})
    cleaned = cleaner.json(text, json.loads(text))
    assert TOKEN not in cleaned.text
    assert json.loads(cleaned.text) == cleaned.value
    assert cleaned.counts == {"aws-access-key": 1}


def test_json_without_secrets_stays_as_it_was_written(cleaner: Cleaner) -> None:
    text = '{ "uuid": "0f9e8d7c-6b5a-4c3d-8e2f-1a0b9c8d7e6f",  "n": 1.0 }'
    assert cleaner.json(text, json.loads(text)).text is text


def test_half_a_surrogate_pair_and_no_number_are_read_all_the_same() -> None:
    assert parsed(b'{"a": "\\ud83d", "b": NaN}') == {"a": "?", "b": None}


def test_known_sessions_are_let_go_of_oldest_first() -> None:
    known = KnownRecords(max_keys=3)
    known.put({"a": {"1": LINE, "2": LINE}, "b": {"1": LINE}, "c": {"1": LINE}})
    assert known.missing(["a", "d"]) == {"d"}
    known.trim()
    assert known.missing(["a", "b", "c"]) == {"b"}


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = Plan(runs([7, 1, 2, 3, 8]), (Removal("s", "k", 5, 2),))
    assert plan.docs == (range(1, 4), range(7, 9))
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json("") == Plan()


def test_what_changed_just_now_is_read_first_and_nothing_twice() -> None:
    backlog = Backlog(FakeClock(), portion_bytes=10)
    old = [Task(CLAUDE, f"/x/{n}.jsonl") for n in range(3)]
    backlog.add(old, is_urgent=False)
    backlog.add([old[2]], is_urgent=True)
    portions = []
    while portion := backlog.take(lambda _: 6):
        portions.append([task.path for task in portion])
    assert portions == [["/x/2.jsonl"], ["/x/0.jsonl", "/x/1.jsonl"]]


def test_a_database_is_left_alone_for_a_while() -> None:
    clock = FakeClock()
    backlog = Backlog(clock)
    task = Task(source("opencode", "opencode", "/x/*.db"), "/x/a.db")
    backlog.leave(task, 0.0)
    backlog.add([task], is_urgent=True)
    assert backlog.take(lambda _: 1) == []
    clock.advance(1.5)
    assert backlog.take(lambda _: 1) == [task]


def test_coverage_counts_what_is_read_of_what_is_there() -> None:
    clock = FakeClock()
    book = CoverageBook(clock)
    changed_ns = int((clock.now().timestamp() - 4) * 1e9)
    one, two = ("s", "/a"), ("s", "/b")
    book.see([(one, (1, 100, 0)), (two, (2, 50, changed_ns))], {"s"})
    book.settle(FileDone(one, (1, 100, 0)))
    book.reach(two, 20)
    found = book.coverage()
    assert (found.files_known, found.files_done, found.bytes_known, found.bytes_done) == (
        (2, 1, 150, 120)
    )
    assert found.is_reading
    assert found.lag_s == pytest.approx(4.0, abs=0.01)
    book.see([(one, (1, 100, 0))], {"s"})
    assert not book.coverage().is_reading


def test_another_process_reads_the_same(tmp_path: Path, cleaner: Cleaner) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type": "user", "sessionId": "s", "message": {"content": "hello"}}\nhalf')
    filler = LineFiller(cleaner, (), (10, 10_000))
    start = Checkpoint("claude", str(path), str(path))
    wanted = Batch()
    reader = CLAUDE.reader(str(path))
    filler.fill(wanted, CLAUDE, reader, start)  # pyright: ignore[reportArgumentType]
    worker = Worker(filler)
    assert worker.fill(CLAUDE, start, takes_rest=False) == (wanted, None)
    with pytest.raises(FileNotFoundError):
        worker.fill(CLAUDE, Checkpoint("claude", "/none", "/none"), takes_rest=False)
    worker.close()
    assert wanted.events == 1


def test_a_worker_ends_with_whoever_asks_it(cleaner: Cleaner) -> None:
    asked, answers = io.BytesIO(), io.BytesIO()
    _send(asked, LineFiller(cleaner, (), (10, 10)))
    _send(asked, (CLAUDE, Checkpoint("claude", "/none", "/none"), False))
    asked.seek(0)
    serve(asked, answers)
    answers.seek(0)
    assert isinstance(_received(answers), FileNotFoundError)
