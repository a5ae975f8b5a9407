"""ClickHouse, embedded or a server, behind one door: query, insert, command, each with a deadline.

Values are bound as `{name:Type}` parameters, never pasted. A deadline or a cancelled caller ends
the work in the engine, not only the wait for it.
"""

import logging
import struct
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import anyio
import numpy as np
from anyio import to_thread
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DataError, Error
from numpy.typing import NDArray
from urllib3.exceptions import HTTPError

from cortex.errors import SettingsError, StoreUnavailable
from cortex.settings.models import ClickHouseSettings
from cortex.store.calls import Calls
from cortex.store.connection import Kind, address_of, connect, kind_of
from cortex.store.handles import HANDLES, HandlePool
from cortex.store.refusal import refusal

# What the library's encoders raise, from wherever they are, for a value of the wrong type.
_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)


async def open_engine(settings: ClickHouseSettings) -> "Engine":
    """Open the store and make sure that its database exists."""
    # The client library logs, with tracebacks and values, every failure that it raises as well.
    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)
    if settings.cluster and kind_of(settings.url) == "embedded":
        raise SettingsError(
            f"[clickhouse] cluster = {settings.cluster!r} needs a server",
            hint="set [clickhouse] url to http://host:port, or remove cluster",
        )
    engine = Engine(settings)
    await engine.prepare()
    return engine


class Engine:
    """An open store. Made by `open_engine`; safe to use from many tasks of one event loop."""

    def __init__(self, settings: ClickHouseSettings) -> None:
        self.kind: Final[Kind] = kind_of(settings.url)
        self.address: Final = address_of(settings.url)
        self.database: Final = settings.database
        self.version = ""
        self._settings = settings
        self._handles = HandlePool(self._connect, HANDLES[self.kind])
        self._calls = Calls(settings, self._handles)

    def local(self, table: str) -> str:
        """Return where the rows of a table lie: on a cluster, those of the shard we talk to."""
        return f"{table}_local" if self._settings.cluster else table

    async def prepare(self) -> None:
        """Connect and create the database: the part of opening that may fail."""
        # An embedded engine takes as long as its tables need to load; a server must answer.
        limit_s = self._settings.timeout_seconds if self.kind == "server" else None
        with ExitStack() as on_failure:
            # A handle that is still being opened will be closed by the thread that opens it.
            on_failure.callback(self._handles.close, timeout_s=0)
            try:
                with anyio.fail_after(limit_s):
                    await to_thread.run_sync(self._prepare, abandon_on_cancel=limit_s is not None)
            except TimeoutError as error:
                raise StoreUnavailable(
                    f"ClickHouse at {self.address} does not answer within {limit_s:g} s",
                    hint="check [clickhouse] url, or raise timeout_seconds",
                ) from error
            except (Error, HTTPError) as error:
                timeout_s = self._settings.timeout_seconds
                raise refusal(error, address=self.address, timeout_s=timeout_s) from error
            on_failure.pop_all()

    async def query(
        self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a statement; moments come back aware, in UTC."""

        def work(client: Client, settings: dict[str, Any]) -> list[dict[str, Any]]:
            result = client.query(sql, parameters=dict(params or {}), settings=settings)
            return list(result.named_results())

        return await self._calls.run(work, timeout_s)

    async def records(
        self,
        sql: str,
        dtype: np.dtype[Any],
        params: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> NDArray[Any]:
        """Return rows of numbers as one array; quick for many rows.

        The fields of `dtype` are the columns of the statement, in its order and of its widths.
        """

        def work(client: Client, settings: dict[str, Any]) -> NDArray[Any]:
            # The library sets and resets each setting by a statement of its own for raw answers
            # of the embedded engine: five milliseconds, where this takes none.
            limits = "" if self.kind == "server" else f" SETTINGS {_clause(settings)}"
            found = client.raw_query(
                sql + limits,
                parameters=dict(params or {}),
                settings=settings if self.kind == "server" else None,
                fmt="RowBinary",
            )
            return np.frombuffer(found, dtype=dtype)

        return await self._calls.run(work, timeout_s)

    async def command(
        self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Run a statement that has no rows to return."""

        def work(client: Client, settings: dict[str, Any]) -> None:
            client.command(sql, parameters=dict(params or {}), settings=settings)

        await self._calls.run(work, timeout_s)

    async def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Add rows, each with its values in the order of `columns`."""
        if not rows:
            return

        def work(client: Client, settings: dict[str, Any]) -> None:
            try:
                client.insert(table, rows, column_names=columns, settings=settings)
            except _UNFIT as error:
                raise DataError(f"A row does not fit {table}: {type(error).__name__}") from error

        await self._calls.run(work, timeout_s)

    async def ping(self) -> None:
        """Raise StoreUnavailable unless the engine answers."""
        await self.query("SELECT 1")

    async def close(self) -> None:
        """End what still runs and let go of the engine; harmless when repeated."""
        await self._calls.close()

    def _connect(self) -> Client:
        return connect(self._settings, timeout_s=self._settings.timeout_seconds)

    def _prepare(self) -> None:
        with self._handles.lend(self._settings.timeout_seconds) as client:
            self.version = client.server_version or ""
            named = {"name": self.database}
            exists = "SELECT count() FROM system.databases WHERE name = {name:String}"
            cluster = self._settings.cluster
            # Asked first, as a user who may not create databases can use one made for them.
            if cluster or not client.command(exists, parameters=named, use_database=False):
                where = f" ON CLUSTER '{cluster}'" if cluster else ""
                create = f"CREATE DATABASE IF NOT EXISTS {{name:Identifier}}{where}"
                client.command(create, parameters=named, use_database=False)


def _clause(settings: Mapping[str, Any]) -> str:
    """Write the settings of a call, which are numbers and words of ours."""
    return ", ".join(f"{name} = {value!r}" for name, value in settings.items())
