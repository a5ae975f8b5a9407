import random
import re
import sqlite3
from pathlib import Path

import anyio
import pytest

from cortex.state.database import Database
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.notes import Draft
from fakes import CountedIds, FakeClock
from remembering import PERSON, agent, asked, noted

pytestmark = pytest.mark.anyio


async def lived_in(memories: Memories) -> list[str]:
    """Let some memories have a life, and return their ids."""
    one = await noted(memories, "The build uses pnpm", agent("s1"), tags=("build",))
    two = await noted(memories, "Tests run on Linux", PERSON)
    three = await noted(memories, "The API listens on port 8080", agent("s2"))
    await memories.notes.outcome(one.id, "helpful", "s9", agent("s9"))
    await memories.notes.tag(two.id, ["tests"], agent(), is_added=True)
    await memories.review.accept([three.id], asked(is_automatic=True))
    await memories.review.supersede(
        three.id, Draft(claim="The API listens on port 9090"), asked(is_automatic=True)
    )
    return [one.id, two.id, three.id]


async def tampered(memories: Memories, statement: str, *values: object) -> list[str]:
    """Change the file behind memory's back and return what the proof names."""

    def change(connection: sqlite3.Connection) -> None:
        names = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        ]
        for name in names:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement, values)

    await memories.core.database.write(change)
    proof = await memories.prover.verify()
    return [f"{found.where}: {found.problem}" for found in proof.differences]


async def test_an_untouched_life_is_proved(memories: Memories) -> None:
    await lived_in(memories)
    proof = await memories.prover.verify()
    assert proof.is_sound
    assert (proof.records, proof.memories) == (10, 4)


COLUMNS = [
    "claim", "claim_key", "evidence", "reason", "tags", "status", "trust", "project", "author",
    "principal", "client", "session", "created_at", "updated_at", "review_at", "reviewed_at",
    "review_wanted", "last_helpful_at", "supersedes", "superseded_by", "contradicts", "near",
    "secrets", "sealed",
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
async def test_a_changed_field_is_named(memories: Memories, column: str) -> None:
    ids = await lived_in(memories)
    found = await tampered(
        memories, f"UPDATE memories SET {column} = '\"tampered\"' WHERE id = ?", ids[0]
    )
    assert any(line.startswith(ids[0]) and column in line for line in found), found


@pytest.mark.parametrize("column", ["times_noted", "helpful", "not_helpful", "seq", "confidence"])
async def test_a_changed_number_is_named(memories: Memories, column: str) -> None:
    ids = await lived_in(memories)
    found = await tampered(memories, f"UPDATE memories SET {column} = 77 WHERE id = ?", ids[0])
    assert any(line.startswith(ids[0]) and column in line for line in found), found


async def test_changed_words_outcomes_and_records_are_named(memories: Memories) -> None:
    ids = await lived_in(memories)
    found = await tampered(
        memories,
        "UPDATE memory_texts SET content = replace(content, 'pnpm', 'npm') WHERE memory_id = ?",
        ids[0],
    )
    assert f"{ids[0]}: its words are not those that were sealed" in found
    found = await tampered(memories, "UPDATE memory_outcomes SET result = 'not-helpful'")
    assert f"{ids[0]}: what session s9 said of it is not what was written" in found
    found = await tampered(memories, "UPDATE ledger_memory SET at = 'never' WHERE seq = 3")
    assert "record 3: was changed after it was written" in found


async def test_lost_and_invented_rows_are_named(memories: Memories) -> None:
    ids = await lived_in(memories)
    found = await tampered(memories, "DELETE FROM memories WHERE id = ?", ids[1])
    assert any(line.startswith(f"{ids[1]}: has no row") for line in found)
    found = await tampered(memories, "UPDATE memories SET id = 'mem_forged' WHERE id = ?", ids[0])
    assert "mem_forged: the ledger knows no such memory" in found
    found = await tampered(memories, "DELETE FROM memory_texts WHERE memory_id = ?", ids[2])
    assert f"{ids[2]}: its words are gone and nobody forgot them" in found
    found = await tampered(memories, "DELETE FROM ledger_memory WHERE seq = 4")
    assert any(line.startswith("record 4: missing") for line in found)


async def test_rows_are_made_again_from_the_ledger(memories: Memories) -> None:
    ids = await lived_in(memories)
    await tampered(memories, "DELETE FROM memory_outcomes")
    await tampered(memories, "UPDATE memories SET claim = 'forged' WHERE id = ?", ids[0])
    await tampered(memories, "DELETE FROM memories WHERE id = ?", ids[1])
    assert not (await memories.prover.verify()).is_sound
    assert await memories.prover.rebuild() == 4
    assert (await memories.prover.verify()).is_sound
    assert (await memories.service.get(ids[0])).memory.claim == "The build uses pnpm"


async def test_a_flipped_byte_anywhere_is_found(tmp_path: Path) -> None:
    """In rows, words, outcomes and records alike, wherever their bytes stand in the file."""
    path = tmp_path / "state.db"
    core = Core(database=Database.open(str(path)), clock=FakeClock(), ids=CountedIds())
    core.open()
    await lived_in(Memories(core))
    core.database.close()
    sound = path.read_bytes()
    needles = [b"The build uses pnpm", b"mem_id-2", b"uid:1", b'"helpful"', b'"sealed":"']
    places = [
        place
        for needle in needles
        for match in re.finditer(re.escape(needle), sound)
        for place in range(*match.span())
        if not _is_index(sound, place)
    ]
    chosen = random.Random(5).sample(places, 60)
    for place in chosen:
        flipped = bytearray(sound)
        flipped[place] ^= 0x01
        path.write_bytes(flipped)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        try:
            database = Database.open(str(path))
        except sqlite3.DatabaseError:
            continue  # SQLite itself found it
        again = Core(database=database, clock=FakeClock(), ids=CountedIds())
        proof = await Memories(again).prover.verify()
        database.close()
        assert not proof.is_sound, bytes(sound[place - 20 : place + 20])


def _is_index(data: bytes, place: int) -> bool:
    """Tell whether a byte stands on a page of an index, which is made from rows."""
    page = data[place // 4096 * 4096 : (place // 4096 + 1) * 4096]
    start = 100 if place < 4096 else 0
    return page[start] != 0x0D


async def test_two_writers_at_once_never_fork_the_chain(memories: Memories) -> None:
    async def write(session: str) -> None:
        for number in range(40):
            await noted(memories, f"{session} learnt fact number {number} of many", agent(session))

    async with anyio.create_task_group() as group:
        for session in ("one", "two", "three"):
            group.start_soon(write, session)
    proof = await memories.prover.verify()
    assert proof.is_sound
    assert proof.memories == 120
