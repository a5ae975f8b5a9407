"""A reader with worker processes is killed with SIGKILL: they end, and nothing is lost."""

import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import open_engine
from cortex.store.migrate import migrate
from harness import eventually
from ingesting import check, claude_line, contents, service_on, settings_for, written

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SCRIPT = Path(__file__).parent.parent / "ingesting.py"
SESSIONS, LINES = 4, 12
# So long that all files together are worth worker processes.
LINE_CHARS = 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sessions" / "claude-code"
    made.mkdir(parents=True)
    return made.parent


def grow(folder: Path, begin: int) -> None:
    """Append lines to every session, the first of them with a number."""
    for name in "abcd"[:SESSIONS]:
        text = f"{name} " * (LINE_CHARS // 2)
        records = [claude_line(name, number, text) for number in range(begin, begin + LINES)]
        with (folder / "claude-code" / f"{name}.jsonl").open("ab") as file:
            file.write(written(records))


def run(tmp_path: Path, folder: Path, writes: int) -> set[psutil.Process]:
    """Read until the n-th write, or to the end with 0; returns the workers that were seen."""
    command = [sys.executable, str(SCRIPT), str(tmp_path / "store"), str(folder), str(writes)]
    workers: set[psutil.Process] = set()
    with subprocess.Popen(command) as process:
        reader = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                workers |= set(reader.children())
                process.wait(0.02)
            except (psutil.NoSuchProcess, subprocess.TimeoutExpired):
                continue
        assert process.returncode == (-9 if writes else 0)
    return workers


async def stored(path: Path, folder: Path | None = None) -> dict[str, list[object]]:
    """Return what a store holds; one that is new reads the folder first."""
    engine = await open_engine(ClickHouseSettings(url=f"chdb://{path}"))
    if folder is not None:
        await migrate(engine)
        await service_on(engine, settings_for(folder)).read(None, None)
    await check(engine)
    found = await contents(engine)
    await engine.close()
    return found


def kill_and_compare(tmp_path: Path, folder: Path, kills: list[int]) -> None:
    for number, writes in enumerate(kills):
        grow(folder, number * LINES)
        workers = run(tmp_path, folder, writes)
        assert workers, "there was enough to read for processes"
        eventually(lambda left=workers: not any(w.is_running() for w in left), "workers end")
    run(tmp_path, folder, 0)
    found = anyio.run(stored, tmp_path / "store")
    assert found == anyio.run(stored, tmp_path / "undisturbed", folder)
    assert len(found["events"]) == SESSIONS * LINES * len(kills)


def test_workers_end_with_a_reader_that_is_killed_and_nothing_is_lost(
    tmp_path: Path, folder: Path
) -> None:
    kill_and_compare(tmp_path, folder, [9])


@pytest.mark.slow
def test_killed_again_and_again_with_workers_nothing_is_lost_or_double(
    tmp_path: Path, folder: Path
) -> None:
    kill_and_compare(tmp_path, folder, [2, 3, 7, 13])
