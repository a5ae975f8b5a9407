import os
import sqlite3
from pathlib import Path

import anyio
import anyio.from_thread
import pytest

from cortex.errors import Unavailable
from cortex.state.database import Database, open_or_move_aside
from fakes import FakeClock

TABLE = "CREATE TABLE IF NOT EXISTS t (x INTEGER PRIMARY KEY, text TEXT)"


def fill(path: Path, rows: int = 500) -> None:
    database = Database.open(str(path))
    database.write_now(lambda c: c.execute(TABLE))
    database.write_now(
        lambda c: c.executemany(
            "INSERT INTO t VALUES (?, ?)", ((n, "x" * 100) for n in range(rows))
        )
    )
    database.close()


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


def add(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO t (text) VALUES ('one')")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_a_new_file_is_for_its_owner_only_and_so_are_those_beside_it(path: Path) -> None:
    old = os.umask(0o022)
    try:
        database = Database.open(str(path))
        database.write_now(lambda c: c.execute(TABLE))
        files = sorted(path.parent.iterdir())
        assert [file.name for file in files] == ["state.db", "state.db-shm", "state.db-wal"]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        database.close()
    finally:
        os.umask(old)


def test_closing_folds_the_log_back_into_the_file(path: Path) -> None:
    fill(path)
    assert [file.name for file in path.parent.iterdir()] == ["state.db"]


@pytest.mark.parametrize(("durability", "level"), [("FULL", 2), ("OFF", 0)])
@pytest.mark.anyio
async def test_a_file_is_as_durable_as_was_asked(path: Path, durability: str, level: int) -> None:
    database = Database.open(str(path), durability=durability)  # pyright: ignore[reportArgumentType]
    pragmas = await database.read(
        lambda c: [
            c.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    )
    database.close()
    assert pragmas == ["wal", level, 1]


@pytest.mark.anyio
async def test_a_change_that_fails_leaves_nothing(path: Path) -> None:
    database = Database.open(str(path))
    await database.write(lambda c: c.execute(TABLE))

    def half(connection: sqlite3.Connection) -> None:
        add(connection)
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(half)
    assert await database.read(count) == 0
    await database.write(add)
    assert await database.read(count) == 1
    database.close()


@pytest.mark.anyio
async def test_a_commit_that_is_refused_leaves_no_transaction_open(path: Path) -> None:
    """A deferred foreign key is checked at COMMIT, as is the room on a full disk."""
    database = Database.open(str(path))
    await database.write(lambda c: c.execute(TABLE))
    await database.write(
        lambda c: c.execute(
            "CREATE TABLE child (x INTEGER REFERENCES t (x) DEFERRABLE INITIALLY DEFERRED)"
        )
    )
    with pytest.raises(Unavailable, match="FOREIGN KEY"):
        await database.write(lambda c: c.execute("INSERT INTO child VALUES (7)"))
    await database.write(add)
    assert await database.read(count) == 1
    database.close()


@pytest.mark.anyio
async def test_a_full_disk_is_said_and_what_was_there_stays(path: Path) -> None:
    fill(path, rows=10)
    database = Database.open(str(path))
    pages = await database.read(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await database.read(lambda c: c.execute(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(Unavailable, match="full") as caught:
        await database.write(lambda c: c.execute("INSERT INTO t (text) VALUES (zeroblob(100000))"))
    assert str(path) in caught.value.message
    assert caught.value.hint == "see whether its disk is full or read-only"
    assert await database.read(count) == 10
    await database.read(lambda c: c.execute("PRAGMA max_page_count = 100000"))
    await database.write(add)
    assert await database.read(count) == 11
    database.close()


def test_a_transaction_sqlite_rolled_back_by_itself_is_not_rolled_back_twice(path: Path) -> None:
    database = Database.open(str(path))
    database.write_now(lambda c: c.execute(TABLE))

    def change(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(Unavailable, match="disk I/O error"):
        database.write_now(change)
    database.close()


@pytest.mark.anyio
async def test_damage_done_while_the_file_is_open_is_said(path: Path) -> None:
    fill(path)
    database = Database.open(str(path))
    await database.read(lambda c: c.execute("PRAGMA cache_size = 0"))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(Unavailable, match="malformed"):
        await database.read(lambda c: c.execute("SELECT sum(length(text)) FROM t").fetchone())
    database.close()


@pytest.mark.anyio
async def test_another_writer_who_keeps_the_lock_makes_it_unavailable(path: Path) -> None:
    fill(path)
    database = Database.open(str(path))
    await database.read(lambda c: c.execute("PRAGMA busy_timeout = 0"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        await database.write(add)
    other.execute("ROLLBACK")
    other.close()
    await database.write(add)
    database.close()


@pytest.mark.anyio
async def test_a_transaction_that_began_is_finished_though_its_caller_left(path: Path) -> None:
    fill(path, rows=1)
    database = Database.open(str(path))
    with anyio.CancelScope() as scope:

        def change(connection: sqlite3.Connection) -> None:
            anyio.from_thread.run_sync(scope.cancel)
            add(connection)

        await database.write(change)
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert await database.read(count) == 2
    database.close()


@pytest.mark.anyio
async def test_changes_wait_for_each_other(path: Path) -> None:
    fill(path, rows=0)
    database = Database.open(str(path))
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(database.write, add)
    assert await database.read(count) == 20
    database.close()


def damaged_header(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 100)


def damaged_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * 4096)


@pytest.mark.parametrize("damage", [damaged_header, damaged_page])
def test_a_damaged_file_is_moved_aside_and_said_so(path: Path, damage: object) -> None:
    fill(path)
    assert callable(damage)
    damage(path)
    bytes_before = path.read_bytes()
    database, moved = open_or_move_aside(str(path), FakeClock())
    assert moved is not None
    assert moved.path == f"{path}.corrupt-20260102T030405Z"
    assert Path(moved.path).read_bytes() == bytes_before
    assert moved.reason
    database.write_now(lambda c: c.execute(TABLE))
    assert database.write_now(count) == 0
    database.close()


def test_the_log_of_a_damaged_file_goes_with_it(path: Path) -> None:
    """SQLite folds the log back when the last connection closes; here one is still open."""
    fill(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("INSERT INTO t (text) VALUES ('in the log')")
    log = Path(f"{path}-wal").read_bytes()
    damaged_page(path)
    database, moved = open_or_move_aside(str(path), FakeClock())
    assert moved is not None
    assert Path(f"{moved.path}-wal").read_bytes() == log
    database.close()
    other.close()


def test_two_damaged_files_in_one_second_are_both_kept(path: Path) -> None:
    moves: list[str] = []
    for text in (b"first" * 500, b"second" * 500, b"third" * 500):
        path.write_bytes(text)
        database, moved = open_or_move_aside(str(path), FakeClock())
        database.close()
        assert moved is not None
        moves.append(moved.path)
        assert Path(moved.path).read_bytes() == text
    assert len(set(moves)) == 3


def test_a_sound_file_is_left_where_it_is(path: Path) -> None:
    fill(path)
    database, moved = open_or_move_aside(str(path), FakeClock())
    assert moved is None
    assert database.write_now(count) == 500
    database.close()


@pytest.mark.parametrize("where", ["folder", "missing/state.db", "file/state.db"])
def test_a_place_that_cannot_be_opened_is_unavailable_and_not_damage(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot open"):
        open_or_move_aside(str(tmp_path / where), FakeClock())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]


def test_a_file_whose_log_cannot_be_opened_is_unavailable_and_not_damage(path: Path) -> None:
    fill(path)
    Path(f"{path}-wal").mkdir()
    with pytest.raises(Unavailable, match="unable to open"):
        open_or_move_aside(str(path), FakeClock())
    assert sorted(file.name for file in path.parent.iterdir()) == ["state.db", "state.db-wal"]


@pytest.mark.anyio
async def test_a_long_question_sees_one_snapshot_and_holds_nobody_up(path: Path) -> None:
    fill(path, 3)
    database = Database.open(str(path))
    is_reading, may_end = anyio.Event(), anyio.Event()
    seen: list[int] = []

    def question(connection: sqlite3.Connection) -> None:
        seen.append(count(connection))
        anyio.from_thread.run_sync(is_reading.set)
        anyio.from_thread.run(may_end.wait)
        seen.append(count(connection))

    async with anyio.create_task_group() as group:
        group.start_soon(database.read_apart, question)
        await is_reading.wait()
        await database.write(add)
        may_end.set()
    assert seen == [3, 3]
    assert await database.read_apart(count) == 4
    with pytest.raises(Unavailable):
        await database.read_apart(add)
    database.close()
