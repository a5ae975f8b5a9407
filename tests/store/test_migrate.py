import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import anyio
import pytest

from cortex.errors import SchemaMismatch, StoreError
from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import load_migrations, migrate

pytestmark = pytest.mark.anyio

FILES = {
    "0001_events.sql": """
        -- shard: cityHash64(session)
        CREATE TABLE IF NOT EXISTS events (session String, body String DEFAULT ';')
        ENGINE = MergeTree ORDER BY session;
        CREATE VIEW IF NOT EXISTS sessions AS SELECT DISTINCT session FROM events;
    """,
    "0002_size.sql": "ALTER TABLE events ADD COLUMN IF NOT EXISTS size UInt32 AFTER session",
}
# The table of records, three statements, two records.
WRITES = 6


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write(tmp_path / "migrations", FILES)


def write(directory: Path, texts: dict[str, str]) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text)
    return directory


async def schema(engine: Engine) -> list[dict[str, Any]]:
    rows = await engine.query(
        "SELECT name, create_table_query FROM system.tables "
        "WHERE database = currentDatabase() ORDER BY name"
    )
    return [
        {**row, "create_table_query": row["create_table_query"].replace(engine.database, "db")}
        for row in rows
    ]


async def records(engine: Engine) -> list[tuple[int, str]]:
    rows = await engine.query("SELECT version, name FROM schema_migrations FINAL ORDER BY version")
    return [(row["version"], row["name"]) for row in rows]


async def test_migrations_are_applied_in_order_and_once(engine: Engine, files: Path) -> None:
    migrations = load_migrations(files)
    assert [str(applied) for applied in await migrate(engine, migrations)] == [
        "0001_events",
        "0002_size",
    ]
    before = await schema(engine)
    assert await migrate(engine, migrations) == []
    assert await schema(engine) == before
    assert await records(engine) == [(1, "events"), (2, "size")]


async def test_a_later_program_applies_only_what_is_new(engine: Engine, files: Path) -> None:
    migrations = load_migrations(files)
    await migrate(engine, migrations[:1])
    assert await migrate(engine, migrations) == migrations[1:]


async def test_the_shipped_migrations_apply(engine: Engine) -> None:
    assert await migrate(engine) == load_migrations()
    assert await migrate(engine) == []


class Recorder:
    """Takes the place of an engine on a cluster, which cannot be had here."""

    database = "cortex"
    address = "http://127.0.0.1:8123"

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def command(self, sql: str, *, timeout_s: float) -> None:
        assert timeout_s > 0
        self.sent.append(" ".join(sql.split())[:66])

    async def query(self, _sql: str) -> list[dict[str, Any]]:
        return []

    async def insert(self, table: str, _columns: Sequence[str], rows: list[Any]) -> None:
        self.sent.append(f"{table} + {rows[0][0]}")


async def test_on_a_cluster_the_generated_statements_are_sent(files: Path) -> None:
    recorder = Recorder()
    await migrate(cast("Engine", recorder), load_migrations(files), cluster="main")
    assert recorder.sent == [
        "CREATE TABLE IF NOT EXISTS schema_migrations_local ON CLUSTER 'mai",
        "CREATE TABLE IF NOT EXISTS schema_migrations ON CLUSTER 'main' AS ",
        "CREATE TABLE IF NOT EXISTS events_local ON CLUSTER 'main' (session",
        "CREATE TABLE IF NOT EXISTS events ON CLUSTER 'main' AS events_loca",
        "CREATE VIEW IF NOT EXISTS sessions ON CLUSTER 'main' AS SELECT DIS",
        "schema_migrations + 1",
        "ALTER TABLE events_local ON CLUSTER 'main' ADD COLUMN IF NOT EXIST",
        "ALTER TABLE events ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS size",
        "schema_migrations + 2",
    ]


async def test_a_record_mirrored_twice_is_read_once(engine: Engine) -> None:
    await migrate(engine)
    for _ in range(2):
        await engine.insert("audit_log", ["chain", "seq", "kind"], [["home", 1, "intent"]])
    rows = await engine.query("SELECT chain, seq, kind FROM audit_log FINAL")
    assert rows == [{"chain": "home", "seq": 1, "kind": "intent"}]


async def test_a_migration_killed_after_any_write_is_completed_by_the_next(
    settings: ClickHouseSettings, files: Path, tmp_path: Path
) -> None:
    fresh = await open_engine(another(settings, tmp_path))
    await migrate(fresh, load_migrations(files))
    expected = await schema(fresh)
    await fresh.close()
    for writes in range(1, WRITES + 1):
        killed = another(settings, tmp_path)
        assert await run_until_killed(killed, files, writes) == -signal.SIGKILL
        engine = await open_engine(killed)
        await migrate(engine, load_migrations(files))
        assert await schema(engine) == expected
        assert await records(engine) == [(1, "events"), (2, "size")]
        await engine.close()
    assert await run_until_killed(another(settings, tmp_path), files, WRITES + 1) == 0


def another(settings: ClickHouseSettings, tmp_path: Path) -> ClickHouseSettings:
    name = f"cortex_{uuid4().hex}"
    is_embedded = settings.url.startswith("chdb://")
    place = {"url": f"chdb://{tmp_path / name}"} if is_embedded else {"database": name}
    return settings.model_copy(update=place)


async def run_until_killed(settings: ClickHouseSettings, files: Path, writes: int) -> int:
    arguments = [
        settings.url,
        settings.database,
        settings.password.get_secret_value(),
        str(files),
        str(writes),
    ]
    script = Path(__file__).with_name("killed_migration.py")
    with anyio.fail_after(20):
        done = await anyio.run_process(
            [sys.executable, str(script), *arguments], check=False, stderr=subprocess.STDOUT
        )
    assert done.stdout == b"", done.stdout.decode()
    return done.returncode


async def test_two_migrations_at_once_end_in_the_same_schema(
    settings: ClickHouseSettings, files: Path
) -> None:
    engines = [await open_engine(settings), await open_engine(settings)]
    async with anyio.create_task_group() as tasks:
        for engine in engines:
            tasks.start_soon(migrate, engine, load_migrations(files))
    assert await records(engines[0]) == [(1, "events"), (2, "size")]
    assert await migrate(engines[1], load_migrations(files)) == []
    for engine in engines:
        await engine.close()


async def test_a_database_of_a_newer_program_is_refused_and_left_alone(
    engine: Engine, files: Path
) -> None:
    migrations = load_migrations(files)
    await migrate(engine, migrations)
    before = await schema(engine)
    with pytest.raises(
        SchemaMismatch, match="has migration 0002_size, which this Cortex"
    ) as refused:
        await migrate(engine, migrations[:1])
    assert "upgrade Cortex" in refused.value.hint
    assert await schema(engine) == before


async def test_a_migration_changed_after_it_was_applied_is_refused(
    engine: Engine, files: Path
) -> None:
    await migrate(engine, load_migrations(files))
    write(files, {"0001_events.sql": FILES["0001_events.sql"].replace("';'", "'.'")})
    with pytest.raises(SchemaMismatch, match="Migration 0001_events is not the one") as refused:
        await migrate(engine, load_migrations(files))
    assert "\n" not in str(refused.value)


def test_line_ends_do_not_change_a_checksum(files: Path) -> None:
    before = load_migrations(files)
    for file in files.iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert [m.checksum for m in load_migrations(files)] == [m.checksum for m in before]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"1_short.sql": "DROP VIEW IF EXISTS v"}, "1_short.sql is not named NNNN_name.sql"),
        ({"0001_none.sql": "-- nothing here;"}, "0001_none.sql holds no statement"),
        (
            {"0001_a.sql": "DROP VIEW IF EXISTS v", "0001_b.sql": "DROP VIEW IF EXISTS w"},
            "0001_a and 0001_b have the same version",
        ),
        ({"0001_open.sql": "DROP VIEW IF EXISTS v;\n'oops"}, "unended or nested ' in line 2"),
    ],
)
def test_a_folder_that_is_wrong_is_refused_in_one_line(
    tmp_path: Path, texts: dict[str, str], said: str
) -> None:
    folder: Traversable = write(tmp_path, texts)
    with pytest.raises(StoreError) as refused:
        load_migrations(folder)
    assert said in refused.value.message
    assert "\n" not in refused.value.message
