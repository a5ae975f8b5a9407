"""Migrates a database and kills itself, as `kill -9` would, after the n-th write to it."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import load_migrations, migrate


class DyingEngine(Engine):
    writes_left: int

    async def command(self, *args: Any, **options: Any) -> None:
        await super().command(*args, **options)
        self.count_down()

    async def insert(self, *args: Any, **options: Any) -> None:
        await super().insert(*args, **options)
        self.count_down()

    def count_down(self) -> None:
        self.writes_left -= 1
        if self.writes_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    url, database, password, directory, writes = sys.argv[1:]
    settings = {"url": url, "database": database, "password": password}
    engine = await open_engine(ClickHouseSettings.model_validate(settings))
    engine.__class__ = DyingEngine
    assert isinstance(engine, DyingEngine)
    engine.writes_left = int(writes)
    await migrate(engine, load_migrations(Path(directory)))
    await engine.close()


anyio.run(main)
