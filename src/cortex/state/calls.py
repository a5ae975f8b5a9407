"""Calls of the last seconds in SQLite: a sliding window that outlives the process."""

import hashlib
import sqlite3
from dataclasses import dataclass

from pyrate_limiter import Rate, RateItem
from pyrate_limiter.buckets.sqlite_bucket import Queries, SQLiteBucket

from cortex.clock import Clock
from cortex.state.database import Database


@dataclass(frozen=True, slots=True)
class CallLog:
    """Counts calls by key, so that neither a restart nor a crash forgives them."""

    database: Database
    clock: Clock

    async def hit(self, key: str, *, calls: int, window_s: float) -> int | None:
        """Count one call and return None, or count nothing and return the milliseconds to wait."""
        now_ms = round(self.clock.now().timestamp() * 1000)
        rate = Rate(calls, round(window_s * 1000))
        return await self.database.read(lambda connection: _hit(connection, key, rate, now_ms))


def _hit(connection: sqlite3.Connection, key: str, rate: Rate, now_ms: int) -> int | None:
    # One table a bucket is how the library stores them; a digest makes any key a safe table name.
    table = "calls_" + hashlib.sha256(key.encode()).hexdigest()[:32]
    connection.execute(Queries.CREATE_BUCKET_TABLE.format(table=table))
    # A clock that was set back would else leave calls "in the future" that count for ever.
    connection.execute(f"DELETE FROM {table} WHERE item_timestamp > ?", (now_ms,))  # noqa: S608
    bucket = SQLiteBucket([rate], connection, table)
    bucket.leak(now_ms)
    item = RateItem(key, now_ms)
    if bucket.put(item):
        return None
    wait_ms = bucket.waiting(item)
    return max(1, wait_ms) if isinstance(wait_ms, int) else rate.interval
