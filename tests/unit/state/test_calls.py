from pathlib import Path

import pytest

from cortex.errors import Unavailable
from cortex.state.calls import CallLog
from cortex.state.database import Database
from fakes import FakeClock

pytestmark = pytest.mark.anyio


async def test_calls_outside_the_window_are_forgotten(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path / "limits.db"), durability="OFF")
    clock = FakeClock()
    log = CallLog(database, clock)
    for _ in range(100):
        assert await log.hit("k", calls=50, window_s=10) is None
        clock.advance(1)
    tables = await database.read(
        lambda c: [str(row[0]) for row in c.execute("SELECT name FROM sqlite_master")]
    )
    assert len(tables) == 1
    kept = await database.read(
        lambda c: int(c.execute(f"SELECT count(*) FROM {tables[0]}").fetchone()[0])
    )
    assert kept == 11
    database.close()


async def test_a_count_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    """Fail closed: a limit that cannot be kept lets nobody through."""
    database = Database.open(str(tmp_path / "limits.db"), durability="OFF")
    await database.read(lambda c: c.execute("PRAGMA query_only = ON"))
    with pytest.raises(Unavailable):
        await CallLog(database, FakeClock()).hit("k", calls=50, window_s=10)
    database.close()
