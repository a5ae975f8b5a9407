"""As a script: reads a folder, forgets a session in it and kills itself after the n-th write.

With 0 it is the start after that: finishes what was cut off, and prints what is left.
"""

import json
import os
import signal
import sys
from pathlib import Path

import anyio

from cortex.clock import RandomIds, SystemClock
from cortex.settings.models import ClickHouseSettings
from cortex.state.journal import Journal
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import migrate
from cortex.toolsets.conversations.forget import Forgetter
from cortex.toolsets.conversations.forget_queries import TABLES, ForgetQueries
from cortex.toolsets.conversations.forgotten import State
from harness import PATIENCE_S
from ingesting import check, make_dying, service_on, settings_for


async def _main(root: Path, writes: int) -> None:
    """Read a folder, forget a session, and die after some writes of that (0: never)."""
    clock, ids = SystemClock(), RandomIds()
    engine = await open_engine(ClickHouseSettings(url=f"chdb://{root / 'store'}"))
    await migrate(engine)
    ingest = service_on(engine, settings_for(root / "sessions"))
    await ingest.read(None, None)
    journal, _ = Journal.open(str(root / "audit.db"), "audit", clock, ids)
    forgetter = Forgetter(
        ForgetQueries(engine),
        ingest,
        journal,
        clock,
        ids,
        write_logs=_nothing,
        on_change=lambda: None,
        is_cluster=False,
    )
    make_dying(engine, writes, lambda: os.kill(os.getpid(), signal.SIGKILL))
    if writes:
        await forgetter.forget("session", "gone", "uid:1")
    else:
        await _finish(forgetter)
        await ingest.read(None, None)
        await check(engine)
        await _report(engine, forgetter)
    await engine.close()


async def _nothing() -> None:
    pass


async def _finish(forgetter: Forgetter) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(forgetter.run)
            while any(r.state == State.REMOVING for r in await forgetter.rules()):  # noqa: ASYNC110
                await anyio.sleep(0.05)
            group.cancel_scope.cancel()


async def _report(engine: Engine, forgetter: Forgetter) -> None:
    left = {}
    for table in TABLES:
        rows = await engine.query(f"SELECT * FROM {table}")
        left[table] = "gone" in str(rows) or "walrus" in str(rows)
    found = await engine.query("SELECT DISTINCT session_id AS id FROM events")
    sys.stdout.write(
        json.dumps(
            {
                "rules": len(await forgetter.rules()),
                "left": [table for table, is_left in left.items() if is_left],
                "sessions": sorted(row["id"] for row in found),
            }
        )
    )


if __name__ == "__main__":
    anyio.run(_main, Path(sys.argv[1]), int(sys.argv[2]))
