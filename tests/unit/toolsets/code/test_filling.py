from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cortex.clock import SystemClock
from cortex.embedding.provider import Mode, Vectors
from cortex.errors import Unavailable
from cortex.toolsets.code.filling import VectorFiller
from cortex.toolsets.code.indexing.indexer import Indexer
from cortex.toolsets.code.indexing.project import read_project
from cortex.toolsets.code.project import Project

pytestmark = pytest.mark.anyio


class Counted:
    """A provider that counts, and can be told to be away."""

    def __init__(self, name: str = "counted") -> None:
        self.name = name
        self.is_away = False
        self.passages: list[str] = []

    async def model(self) -> str:
        return self.name

    async def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        if self.is_away:
            raise Unavailable("away")
        assert mode == "passage"
        self.passages += texts
        return np.eye(384, dtype=np.float32)[[len(text) % 384 for text in texts]]

    async def close(self) -> None:
        pass


def indexed(root: Path) -> Project:
    """Index a small project with the real indexer, and open it."""
    (root / "src").mkdir(parents=True, exist_ok=True)
    for name in ("login", "logout"):
        (root / "src" / f"{name}.py").write_text(f'def {name}():\n    """Do it."""\n    return 1\n')
    folder = root / ".cortex" / "chunks"
    Indexer(root, folder, read_project(root)).run()
    return Project(folder, SystemClock())


async def test_chunks_without_a_vector_get_one_and_no_chunk_gets_two(tmp_path: Path) -> None:
    project, provider = indexed(tmp_path), Counted()
    filler = VectorFiller(SystemClock(), lambda: [project], provider)
    count = await filler.fill(project)
    assert count == len(project.snapshot) == len(provider.passages)
    project.reload()
    assert project.snapshot.vectors is not None
    assert project.snapshot.vectors.model == "counted"
    assert project.snapshot.vectors.is_there.all()
    assert await filler.fill(project) == 0
    assert len(provider.passages) == count


async def test_an_edited_function_is_embedded_alone(tmp_path: Path) -> None:
    project, provider = indexed(tmp_path), Counted()
    filler = VectorFiller(SystemClock(), lambda: [project], provider)
    await filler.fill(project)
    provider.passages.clear()
    edited = tmp_path / "src" / "login.py"
    edited.write_text(edited.read_text().replace("return 1", "return 2"))
    Indexer(tmp_path, project.folder, read_project(tmp_path)).run()
    project.reload()
    await filler.fill(project)
    assert len(provider.passages) == 1
    assert "return 2" in provider.passages[0]


async def test_a_model_that_is_away_is_left_alone_for_a_while(tmp_path: Path) -> None:
    project, provider = indexed(tmp_path), Counted()
    provider.is_away = True
    filler = VectorFiller(SystemClock(), lambda: [project], provider)
    assert await filler.fill(project) == 0
    assert project.state.last_error == "away"
    provider.is_away = False
    assert await filler.fill(project) == 0
    assert provider.passages == []
    filler.retry(project.folder)
    assert await filler.fill(project) == len(project.snapshot)
    assert project.state.last_error == ""


async def test_vectors_of_another_model_are_not_thrown_away(tmp_path: Path) -> None:
    project = indexed(tmp_path)
    first = VectorFiller(SystemClock(), lambda: [project], Counted())
    await first.fill(project)
    project.reload()
    second = Counted("another")
    assert await VectorFiller(SystemClock(), lambda: [project], second).fill(project) == 0
    assert second.passages == []
    assert project.state.last_error == ""  # nothing is wanting
    (tmp_path / "src" / "new.py").write_text("def new(): ...\n")
    Indexer(tmp_path, project.folder, read_project(tmp_path)).run()
    project.reload()
    assert await VectorFiller(SystemClock(), lambda: [project], second).fill(project) == 0
    assert "cortex index --re-embed" in project.state.last_error
