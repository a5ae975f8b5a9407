from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import pytest

from code_chunks import chunk, write_chunks, write_whole
from cortex.clock import SystemClock
from cortex.embedding.provider import Mode, Provider, Vectors
from cortex.errors import Conflict, InvalidParams, Unavailable
from cortex.toolsets.code.project import QUIET_S, chunks_folder
from cortex.toolsets.code.search import Filters
from cortex.toolsets.code.service import IDLE_S, Asked, CodeService, Found
from fakes import FakeClock

pytestmark = pytest.mark.anyio

NEAR = np.eye(384, dtype=np.float32)[0]
FAR = np.eye(384, dtype=np.float32)[1]
COOKIES = chunk("src/cookies.py", "def keep(): store cookies", "keep")
OTHER = chunk("src/other.py", "def other(): do something else", "other")


class Scripted:
    """A provider that knows one vector, and can be told to be away."""

    def __init__(self, name: str = "test-model") -> None:
        self.name = name
        self.is_away = False
        self.asked: list[tuple[str, Mode]] = []

    async def model(self) -> str:
        return self.name

    async def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        if self.is_away:
            raise Unavailable("the model is away")
        self.asked.extend((text, mode) for text in texts)
        return np.stack([NEAR for _ in texts])

    async def close(self) -> None:
        pass


def project(root: Path, *, with_vectors: bool = False) -> Path:
    vectors = {COOKIES.id: FAR.tolist(), OTHER.id: NEAR.tolist()} if with_vectors else None
    write_chunks(root / ".cortex" / "chunks", [COOKIES, OTHER], vectors)
    return root


def service(
    provider: Provider | None = None, clock: FakeClock | None = None, **options: bool
) -> CodeService:
    return CodeService(clock or FakeClock(), lambda _environ: provider, **options)


async def ask(code: CodeService, root: Path, query: str = "store cookies", **environ: str) -> Found:
    return await code.search(
        Asked(query=query, limit=15, filters=Filters(), cwd=str(root), environ=environ)
    )


def paths(found: Found) -> list[str]:
    return [hit.chunk["metadata"]["file_path"] for hit in found.hits]


async def test_a_project_is_where_the_session_stands(tmp_path: Path) -> None:
    one, other = project(tmp_path / "one"), tmp_path / "other"
    write_chunks(other / ".cortex" / "chunks", [OTHER])
    code = service()
    assert paths(await ask(code, one))[0] == "src/cookies.py"
    assert paths(await ask(code, other, "something else")) == ["src/other.py"]
    inside = one / "src" / "deep"
    inside.mkdir(parents=True)
    assert paths(await ask(code, inside))[0] == "src/cookies.py"
    assert paths(await ask(code, other, CORTEX_CHUNKS_DIR=str(one / ".cortex/chunks"))) == paths(
        await ask(code, one)
    )
    assert len(code.projects) == 2


def test_a_worktree_inside_another_is_a_project_of_its_own(tmp_path: Path) -> None:
    project(tmp_path)
    worktree = tmp_path / "worktrees" / "feature"
    worktree.mkdir(parents=True)
    (worktree / ".git").write_text("gitdir: elsewhere")
    assert chunks_folder(str(worktree), {}) == worktree / ".cortex" / "chunks"


async def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"holds no chunk files \(run `cortex index`"):
        await ask(service(), tmp_path)
    with pytest.raises(Unavailable, match="not known which project"):
        await service().search(Asked(query="x", limit=1, filters=Filters(), cwd=None, environ={}))
    with pytest.raises(InvalidParams, match="query cannot be empty"):
        await ask(service(), project(tmp_path), " \n")


async def test_no_chunk_has_its_vector_in_the_answer(tmp_path: Path) -> None:
    found = await ask(service(Scripted()), project(tmp_path, with_vectors=True))
    assert all("embedding" not in hit.chunk for hit in found.hits)
    assert found.chunks_with_vectors == 2


async def test_questions_are_embedded_as_queries(tmp_path: Path) -> None:
    provider = Scripted()
    found = await ask(service(provider), project(tmp_path, with_vectors=True), "baked goods")
    assert provider.asked == [("baked goods", "query")]
    assert paths(found)[0] == "src/other.py"


async def test_words_are_enough_while_there_are_no_vectors(tmp_path: Path) -> None:
    provider = Scripted()
    provider.is_away = True
    found = await ask(service(provider), project(tmp_path))
    assert paths(found)[0] == "src/cookies.py"
    assert found.words_only == "no chunk has a vector yet"


async def test_a_model_that_is_away_is_an_error_unless_words_alone_are_allowed(
    tmp_path: Path,
) -> None:
    provider = Scripted()
    provider.is_away = True
    root = project(tmp_path, with_vectors=True)
    with pytest.raises(Unavailable, match="the model is away"):
        await ask(service(provider), root)
    found = await ask(service(provider, allow_words_only=True), root)
    assert paths(found)[0] == "src/cookies.py"
    assert found.words_only == "the model is away"


async def test_vectors_of_another_model_are_refused(tmp_path: Path) -> None:
    root = project(tmp_path, with_vectors=True)
    with pytest.raises(Conflict, match="embedded by test-model, and questions are by new"):
        await ask(service(Scripted("new")), root)
    found = await ask(service(), root)
    assert found.words_only == "no embedding model is in use"


async def test_a_project_nobody_asks_about_is_closed(tmp_path: Path) -> None:
    clock = FakeClock()
    code = service(clock=clock)
    root = project(tmp_path)
    await ask(code, root)
    clock.advance(IDLE_S - 1)
    await code.look()
    assert len(code.projects) == 1
    clock.advance(2)
    await code.look()
    assert code.projects == ()
    assert paths(await ask(code, root))[0] == "src/cookies.py"


async def test_many_who_ask_first_open_a_project_once(tmp_path: Path) -> None:
    code = service()
    root = project(tmp_path)
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask, code, root)
    assert len(code.projects) == 1


async def test_a_reload_waits_until_the_files_are_left_alone(tmp_path: Path) -> None:
    clock = FakeClock()
    code = service(clock=clock)
    root = project(tmp_path)
    await ask(code, root)
    for text in ("first", "second"):
        write_chunks(root / ".cortex" / "chunks", [chunk("new.py", f"{text} cookies")])
        await code.look()
        clock.advance(QUIET_S * 0.8)
        await code.look()
        assert "src/cookies.py" in paths(await ask(code, root))
    clock.advance(QUIET_S)
    await code.look()
    found = await ask(code, root)
    assert [hit.chunk["text"] for hit in found.hits] == ["second cookies"]
    assert (found.reloads.total, found.reloads.failed) == (1, 0)


@pytest.mark.parametrize("text", ['{"chunks": [', "", None])
async def test_a_corrupt_or_missing_file_keeps_the_old_state(
    tmp_path: Path, text: str | None
) -> None:
    clock = FakeClock()
    code = service(clock=clock)
    root = project(tmp_path)
    before = await ask(code, root)
    folder = root / ".cortex" / "chunks"
    for file in list(folder.iterdir()):
        if text is None:
            file.unlink()
        else:
            write_whole(file, text)
    for _ in range(4):
        await code.look()
        clock.advance(QUIET_S)
    after = await ask(code, root)
    assert paths(after) == paths(before)
    assert (after.reloads.total, after.reloads.failed) == (1, 1)
    assert str(folder) in after.reloads.last_error
    write_chunks(folder, [OTHER])
    for _ in range(2):
        await code.look()
        clock.advance(QUIET_S)
    await code.look()
    assert paths(await ask(code, root, "something")) == ["src/other.py"]


async def test_constant_questions_are_answered_from_whole_states_while_files_change(
    tmp_path: Path,
) -> None:
    """Every answer is of one generation: never empty, never mixed, never behind for good."""
    code = CodeService(SystemClock(), lambda _environ: None)
    folder = tmp_path / ".cortex" / "chunks"
    answers: list[set[str]] = []
    told = anyio.Event()

    def write(generation: int) -> None:
        names = [chunk(f"f{n}.py", f"cookies generation{generation}", part=n) for n in range(20)]
        write_chunks(folder, names)

    async def ask_on() -> None:
        while True:
            found = await ask(code, tmp_path, "cookies")
            answers.append({hit.chunk["text"] for hit in found.hits})
            told.set()

    write(0)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(code.run)
            group.start_soon(ask_on)
            group.start_soon(ask_on)
            for generation in range(1, 4):
                await anyio.to_thread.run_sync(write, generation)
                while answers[-1:] != [{f"cookies generation{generation}"}]:
                    told = anyio.Event()
                    await told.wait()
            group.cancel_scope.cancel()
    assert all(len(answer) == 1 for answer in answers)


def environ(**values: str) -> Mapping[str, str]:
    return values


def test_a_relative_chunks_folder_is_relative_to_the_session(tmp_path: Path) -> None:
    said = environ(CORTEX_CHUNKS_DIR="index")
    assert chunks_folder(str(tmp_path), said) == tmp_path / "index"
