"""Ingest in real processes that are killed with SIGKILL, again and again."""

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import migrate
from harness import PATIENCE_S
from ingesting import check, claude_line, contents, service_on, settings_for, written

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(240)]

SCRIPT = Path(__file__).parent.parent / "ingesting.py"
FIXTURES = SCRIPT.parent / "unit" / "toolsets" / "conversations" / "fixtures"
BAD = b'{"type": "user", '
SESSIONS = 6
COUNT = "SELECT count() AS n FROM events"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sessions"
    (made / "claude-code").mkdir(parents=True)
    (made / "gemini-cli").mkdir()
    chats = FIXTURES / "gemini-cli" / "5d0c" / "chats"
    shutil.copy(next(chats.iterdir()), made / "gemini-cli")
    return made


def start(tmp_path: Path, folder: Path, writes: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "store"), str(folder), str(writes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines() -> Iterator[tuple[str, bytes]]:
    """Return lines without end, each with the session it belongs to; some are broken."""
    number = 0
    while True:
        name = f"s{number % SESSIONS}"
        line = BAD if number % 17 == 5 else claude_line(name, number // SESSIONS)
        yield name, written([line])
        number += 1


def grow(folder: Path, source: Iterator[tuple[str, bytes]], count: int) -> None:
    """Append lines to the files they belong to."""
    for _ in range(count):
        name, line = next(source)
        with (folder / "claude-code" / f"{name}.jsonl").open("ab") as file:
            file.write(line)


async def compare(tmp_path: Path, folder: Path) -> None:
    """Assert that the store is what one undisturbed reading makes of the same files."""
    tables = []
    for name in ("store", "undisturbed"):
        engine = await open_engine(ClickHouseSettings(url=f"chdb://{tmp_path / name}"))
        if name == "undisturbed":
            await migrate(engine)
            await service_on(engine, settings_for(folder)).read(None, None)
        await check(engine)
        tables.append(await contents(engine))
        await engine.close()
    assert tables[0] == tables[1]
    bad = sum(path.read_bytes().count(BAD + b"\n") for path in folder.glob("*/*.jsonl"))
    assert len(tables[0]["ingest_errors"]) == bad > 0
    assert len(tables[0]["events"]) > 50


def test_killed_after_any_write_every_line_is_in_the_store_once(
    tmp_path: Path, folder: Path
) -> None:
    source = lines()
    for writes in range(1, 18):
        grow(folder, source, 7)
        with start(tmp_path, folder, writes) as process:
            assert process.wait(PATIENCE_S) in (0, -9)
    with start(tmp_path, folder, 0) as process:
        assert process.wait(PATIENCE_S) == 0
    anyio.run(compare, tmp_path, folder)


def test_killed_at_random_moments_while_files_grow_nothing_is_lost_or_double(
    tmp_path: Path, folder: Path
) -> None:
    """The job of the daemon, watching, with a writer that does not stop for it."""
    moments = random.Random(7)
    source = lines()
    grow(folder, source, 40)
    for _ in range(10):
        with start(tmp_path, folder, -1) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for _ in range(moments.randrange(1, 12)):
                grow(folder, source, moments.randrange(1, 9))
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(moments.random() * 0.1)
            process.kill()
    with start(tmp_path, folder, 0) as process:
        assert process.wait(PATIENCE_S) == 0
    anyio.run(compare, tmp_path, folder)


def test_what_is_appended_while_the_job_runs_is_read_without_asking(
    tmp_path: Path, folder: Path
) -> None:
    """A folder that is not there yet, a file in it, then lines in the file."""
    shutil.rmtree(folder)

    async def main() -> None:
        engine = await open_engine(ClickHouseSettings(url=f"chdb://{tmp_path / 'store'}"))
        await migrate(engine)
        changes: list[int] = []
        settings = settings_for(folder, reconcile_interval_seconds=3600.0)
        service = service_on(engine, settings, on_change=lambda: changes.append(1))
        async with anyio.create_task_group() as group:
            group.start_soon(service.run)
            await wait_for(engine, 0)
            (folder / "claude-code" / "new").mkdir(parents=True)
            path = folder / "claude-code" / "new" / "a.jsonl"
            for number in range(1, 4):
                with path.open("ab") as file:
                    file.write(written([claude_line("a", number)]))
                await wait_for(engine, number)
            with anyio.fail_after(PATIENCE_S):
                while service.coverage().is_reading or len(changes) < 3:  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()
        coverage = service.coverage()
        assert (coverage.files_known, coverage.files_done, coverage.lag_s) == (1, 1, 0.0)
        await engine.close()

    anyio.run(main)


async def wait_for(engine: Engine, events: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while (await engine.query(COUNT))[0]["n"] != events:  # noqa: ASYNC110  # no event tells
            await anyio.sleep(0.02)
