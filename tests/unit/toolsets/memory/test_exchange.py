import json
from pathlib import Path
from typing import Any

import pytest

from cortex.errors import InvalidParams
from cortex.state.database import Database
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.memories import Memories
from fakes import CountedIds, FakeClock
from remembering import PERSON, agent, asked, noted

pytestmark = pytest.mark.anyio


@pytest.fixture
def other(tmp_path: Path) -> Any:
    """A second home."""
    database = Database.open(str(tmp_path / "other.db"))
    core = Core(database=database, clock=FakeClock(), ids=CountedIds())
    core.open()
    yield Memories(core)
    database.close()


async def exported(memories: Memories, path: Path) -> list[str]:
    """Give some memories a life, export them, and return their ids: the last is forgotten."""
    one = await noted(memories, "The build uses pnpm", agent("s1"), tags=("build",))
    two = await noted(memories, "Tests run on Linux", PERSON)
    gone = await noted(memories, "Zanzibarquux is a secret place", agent("s1"))
    await memories.notes.outcome(one.id, "helpful", "s9", agent("s9"))
    await memories.review.accept([one.id], asked(is_automatic=True))
    await memories.review.forget(gone.id, PERSON)
    await memories.exchange.export(str(path))
    return [one.id, two.id, gone.id]


async def test_what_was_exported_is_the_same_elsewhere(
    memories: Memories, other: Memories, tmp_path: Path
) -> None:
    path = tmp_path / "memories.jsonl"
    ids = await exported(memories, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "anzibarquux" not in path.read_text()
    done = await other.exchange.load(str(path))
    assert (done.memories, done.known) == (3, 0)
    for memory_id in ids[:2]:
        here, there = await memories.service.get(memory_id), await other.service.get(memory_id)
        assert here.memory == there.memory
        assert here.outcomes == there.outcomes
        assert [record.hash for record in here.history] == [
            record.body["was"]["hash"] for record in there.history
        ]
    proof = await other.prover.verify()
    assert proof.is_sound, proof.differences
    assert proof.memories == 2


async def test_to_import_twice_changes_nothing_more(
    memories: Memories, other: Memories, tmp_path: Path
) -> None:
    path = tmp_path / "memories.jsonl"
    await exported(memories, path)
    await other.exchange.load(str(path))
    again = await other.exchange.load(str(path))
    assert (again.records, again.memories, again.known) == (0, 0, 3)
    back = tmp_path / "back.jsonl"
    await other.exchange.export(str(back))
    home = await memories.exchange.load(str(back))
    assert (home.memories, home.known) == (0, 3)


async def test_what_was_imported_can_be_handed_on(
    memories: Memories, other: Memories, tmp_path: Path
) -> None:
    ids = await exported(memories, tmp_path / "a.jsonl")
    await other.exchange.load(str(tmp_path / "a.jsonl"))
    await other.exchange.export(str(tmp_path / "b.jsonl"))
    database = Database.open(str(tmp_path / "third.db"))
    core = Core(database=database, clock=FakeClock(), ids=CountedIds())
    core.open()
    third = Memories(core)
    await third.exchange.load(str(tmp_path / "b.jsonl"))
    first, last = await memories.service.get(ids[0]), await third.service.get(ids[0])
    assert first.memory == last.memory
    assert [r.hash for r in first.history] == [r.body["was"]["hash"] for r in last.history]
    assert (await third.prover.verify()).is_sound
    database.close()


async def test_a_file_that_was_touched_is_refused_whole(
    memories: Memories, other: Memories, tmp_path: Path
) -> None:
    path = tmp_path / "memories.jsonl"
    await exported(memories, path)
    lines = path.read_text().splitlines()

    def changed(number: int, old: str, new: str) -> list[str]:
        assert old in lines[number]
        return [*lines[:number], lines[number].replace(old, new), *lines[number + 1 :]]

    broken = {
        "was changed": changed(2, '"confidence": 0.8', '"confidence": 0.9'),
        "words are not": changed(2, "pnpm", "yarn"),
        "does not follow": [*lines[:3], *lines[4:]],
        "ends at record": lines[:-1],
        "is not a JSON object": [*lines[:2], "[", *lines[3:]],
        "is not a record": [*lines[:2], json.dumps({"record": 1}), *lines[3:]],
        "is not the head": lines[1:],
    }
    for problem, text in broken.items():
        path.write_text("\n".join(text) + "\n")
        with pytest.raises(InvalidParams, match=problem):
            await other.exchange.load(str(path))
        assert (await other.prover.verify()).records == 1


async def test_a_file_is_never_overwritten_and_a_missing_one_is_said(
    memories: Memories, tmp_path: Path
) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_text("mine")
    with pytest.raises(InvalidParams, match="cannot write"):
        await memories.exchange.export(str(path))
    assert path.read_text() == "mine"
    with pytest.raises(InvalidParams, match="cannot be read"):
        await memories.exchange.load(str(tmp_path / "none"))
