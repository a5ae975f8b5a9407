from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from cortex.errors import Conflict, GateClosed, InvalidParams, NotFound, SchemaMismatch
from cortex.toolsets.memory.answers import evidence_line
from cortex.toolsets.memory.desk import Desk
from cortex.toolsets.memory.files import ProjectFiles, project_of
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.models import Evidence
from cortex.toolsets.memory.packs import pack
from cortex.toolsets.memory.params import evidence_of
from cortex.toolsets.memory.policy import Refused
from cortex.toolsets.memory.queries import Filter
from cortex.toolsets.memory.tables import create_tables
from fakes import FakeClock
from remembering import PERSON, READER, agent, found, noted

pytestmark = pytest.mark.anyio

Ask = Callable[..., Any]


@pytest.fixture
def ask(memories: Memories) -> Ask:
    commands = Desk(memories).commands()

    async def ask(op: str, **order: Any) -> Any:
        return await commands[f"memory.{op}"](order, lambda _progress: None)

    return ask


async def test_what_comes_without_a_terminal_is_an_agents(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    mine = await ask("note", claim="The build uses pnpm", is_person=True, cwd=str(tmp_path / "src"))
    theirs = await ask("note", claim="Tests run on Linux", scope="global")
    assert (mine["trust"], theirs["trust"]) == ("reviewed", "agent")


async def test_the_queue_shows_what_resembles_and_contradicts(ask: Ask, memories: Memories) -> None:
    known = await noted(memories, "The API listens on port 8080", PERSON)
    await noted(memories, "The API listens on port 9090")
    queue = await ask("queue")
    assert queue["total"] == 1
    (waiting,) = queue["waiting"]
    assert waiting["status"] == "quarantined"
    assert [(other["id"], other["how"]) for other in waiting["similar"]] == [
        (known.id, "different value")
    ]


async def test_a_person_decides_and_an_agent_with_a_shell_does_not(
    ask: Ask, memories: Memories
) -> None:
    memory = await noted(memories, "The bild uses pnpm")
    with pytest.raises(GateClosed):
        await ask("decide", id=memory.id, decision="accept")
    await ask("decide", id=memory.id, decision="edit", text="The build uses pnpm", is_person=True)
    done = await ask("decide", id=memory.id, decision="accept", is_person=True)
    assert done["approved"]
    with pytest.raises(GateClosed):
        await ask("decide", id=memory.id, decision="reject", text="no")
    await ask("decide", id=memory.id, decision="retire", text="gone", is_person=True)
    other = await noted(memories, "Tests run on Linux")
    rejected = await ask("decide", id=other.id, decision="reject", text="no", is_person=True)
    assert rejected["status"] == "rejected"
    with pytest.raises(Conflict):
        await ask("decide", id=other.id, decision="accept", is_person=True)


async def test_a_hard_no_stands_above_a_person(ask: Ask, memories: Memories) -> None:
    memory = await noted(memories, "The key is in the vault")
    await ask("decide", id=memory.id, decision="edit", text="The key is sk-secret", is_person=True)
    with pytest.raises(Refused):
        await ask("decide", id=memory.id, decision="accept", is_person=True)
    health = await memories.service.health()
    assert health.secrets == ([memory.id], 1)


async def test_the_other_commands(ask: Ask, memories: Memories, tmp_path: Path) -> None:
    memory = await noted(memories, "The build uses pnpm")
    approved = await ask("approve", ids=[memory.id], is_person=True)
    assert len(approved["code"]) == 11
    assert (await ask("outcome", id=memory.id, result="helpful"))["helpful"] == 1
    assert (await ask("decay", dry_run=True))["seen"] == 1
    assert (await ask("verify", rebuild=True))["ok"]
    assert (await ask("export", path=str(tmp_path / "out.jsonl")))["records"] == 3
    assert (await ask("import", path=str(tmp_path / "out.jsonl")))["known"] == 1
    assert (await ask("forget", id=memory.id))["record"] == 4
    with pytest.raises(NotFound):
        await ask("forget", id=memory.id)
    with pytest.raises(InvalidParams):
        await ask("note", claim=["no"])
    with pytest.raises(InvalidParams):
        await ask("approve", ids=[])


async def test_jobs_run_on_until_they_are_stopped(memories: Memories, clock: FakeClock) -> None:
    memory = await noted(memories, "The build uses pnpm")
    clock.advance(31 * 86_400)
    with anyio.move_on_after(0.5):
        await memories.upkeep.run_decay()
    assert (await memories.service.get(memory.id)).memory.status == "quarantined"
    await memories.upkeep.run_embedding()  # without an embedder there is nothing to do
    assert await memories.upkeep.embed() == 0


async def test_tables_of_a_newer_cortex_are_left_alone(memories: Memories) -> None:
    await memories.core.database.write(
        lambda c: c.execute("INSERT INTO memory_version (version) VALUES (99)")
    )
    with pytest.raises(SchemaMismatch):
        await memories.core.database.write(create_tables)


@pytest.mark.parametrize(
    ("cited", "kept"),
    [
        ("event:abc-1", Evidence(kind="event", ref="abc-1")),
        ("commit:deadbeef", Evidence(kind="commit", ref="deadbeef")),
        ("file:src/a.py", Evidence(kind="file", ref="src/a.py")),
        ("file:src/a.py#L3-L9", Evidence(kind="file", ref="src/a.py", start=3, end=9)),
        ("file:src/a.py#L3", Evidence(kind="file", ref="src/a.py", start=3, end=3)),
        ("Ada said so", Evidence(kind="text", ref="Ada said so")),
    ],
)
def test_evidence_is_written_in_one_line(cited: str, kept: Evidence) -> None:
    assert evidence_of([cited, " "]) == (kept,)
    assert evidence_line(kept).removesuffix(" (unchecked)").startswith(cited.split("#", 1)[0])


@pytest.mark.parametrize("cited", ["file:a#L0-L2", "file:a#L5-L2", "x" * 1001])
def test_evidence_that_makes_no_sense_is_refused(cited: str) -> None:
    with pytest.raises(InvalidParams):
        evidence_of([cited])


async def test_only_text_below_the_project_is_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "outside").write_text("secret\n")
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "binary").write_bytes(b"\xff\xfe\x00")
    (project / "text").write_text("one\ntwo\n")
    files = ProjectFiles()
    assert await files.lines(str(project), "text") == ["one", "two"]
    for path in ("link", "../outside", "binary", "none", "."):
        assert await files.lines(str(project), path) is None
    assert await files.lines("", "text") is None


def test_a_project_is_the_repository_around_a_folder(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")
    assert project_of(str(inner)) == str(tmp_path / "a")
    assert project_of(None) == ""


async def test_a_pack_keeps_to_its_budget_and_says_why(memories: Memories) -> None:
    assert pack([], 100).chosen == ()
    first = await noted(memories, "Deploy with the blue script on Mondays only", PERSON)
    twin = await noted(memories, "Deploy with the blue script on Mondays", PERSON)
    long = await noted(memories, f"Deploy notes: {'word ' * 300}", agent())
    full = await memories.service.context("how to deploy with the blue script", READER, 4096)
    reasons = {left.memory_id: left.reason for left in full.left_out}
    assert {hit.memory.id for hit in full.chosen} & {first.id, twin.id}
    assert "says the same" in reasons.values()
    small = await memories.service.context("deploy notes word", READER, 64)
    assert small.tokens <= 64
    assert {left.memory_id: left.reason for left in small.left_out}[long.id] == "budget"


async def test_lists_are_narrowed_and_paged(memories: Memories) -> None:
    for n in range(5):
        await noted(memories, f"Fact {n} of the house", PERSON, tags=("house",), project="/p")
    await noted(memories, "Another thing altogether", agent(), tags=("house", "other"))
    page, total = await memories.service.list(
        Filter(tags=("house",), project="/p"), limit=2, offset=4
    )
    assert (len(page), total) == (1, 5)
    page, total = await memories.service.list(
        Filter(tags=("house", "other"), status="active"), limit=9, offset=0
    )
    assert (len(page), total) == (1, 1)
    assert len(await found(memories, "fact")) == 5
    assert len(await found(memories, "house")) == 6  # a tag is a word too
