"""Asserts that moments keep their value, in the zone this process was started in."""

import sys
from datetime import UTC, datetime

import anyio

from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import open_engine


async def main() -> None:
    moment = datetime(2026, 7, 2, 3, 4, 5, 678000, UTC)
    engine = await open_engine(ClickHouseSettings(url=f"chdb://{sys.argv[1]}"))
    await engine.command(
        "CREATE TABLE moments (bare DateTime64(3), zoned DateTime64(3, 'UTC')) "
        "ENGINE = MergeTree ORDER BY bare"
    )
    await engine.insert("moments", ["bare", "zoned"], [[moment, moment]])
    rows = await engine.query(
        "SELECT bare, zoned FROM moments WHERE bare = {at:DateTime64(3)} "
        "AND zoned = {at:DateTime64(3, 'UTC')} AND toString(bare) = '2026-07-02 03:04:05.678'",
        {"at": moment},
    )
    assert rows == [{"bare": moment, "zoned": moment}], rows
    assert all(value.utcoffset().total_seconds() == 0 for value in rows[0].values())
    await engine.close()


anyio.run(main)
