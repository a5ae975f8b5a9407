"""ClickHouse, embedded or a server, behind one door: query, insert, command, each with a deadline.

Values are bound as `{name:Type}` parameters, never pasted. A deadline or a cancelled caller ends
the work in the engine, not only the wait for it.
"""

import logging
import math
import struct
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DataError, Error
from clickhouse_connect.driver.httpclient import HttpClient
from urllib3 import Timeout
from urllib3.exceptions import HTTPError

from cortex.errors import CortexError, SettingsError, StoreUnavailable
from cortex.settings import ClickHouseSettings
from cortex.store.connection import HandlePool, Kind, address_of, connect, kind_of
from cortex.store.refusal import deadline_exceeded, refusal

_T = TypeVar("_T")
_Work = Callable[[Client, dict[str, Any]], _T]

_HANDLES: Final[Mapping[Kind, int]] = {"embedded": 4, "server": 8}
# The embedded engine chooses query ids itself, so there a call is known by its comment.
_CALL_TAG: Final[Mapping[Kind, str]] = {"embedded": "log_comment", "server": "query_id"}
_KILL: Final[Mapping[Kind, str]] = {
    "embedded": "KILL QUERY WHERE Settings['log_comment'] = {id:String} ASYNC",
    "server": "KILL QUERY WHERE query_id = {id:String} ASYNC",
}
# What the library's encoders raise, from wherever they are, for a value of the wrong type.
_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
# A query that was just sent may not be in the process list yet, so a kill is repeated.
_KILL_PAUSES_S = (0.0, 0.05, 0.2, 1.0)
_KILL_TIMEOUT_S = 3.0
_SOCKET_GRACE_S = 1.0

_log = logging.getLogger(__name__)


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


def _closed() -> StoreUnavailable:
    return StoreUnavailable("The store is closed")


class _Call:
    """One statement on its way: who it is in the engine, and how long it may take."""

    def __init__(self, timeout_s: float) -> None:
        self.id = uuid.uuid4().hex
        self.ends_at = time.monotonic() + timeout_s
        self.has_begun = False
        self.is_abandoned = False
        self.is_done = threading.Event()

    def remaining_s(self) -> float:
        """Return the time left in whole milliseconds; never 0, which the engine reads as ever."""
        return max(1, math.ceil((self.ends_at - time.monotonic()) * 1000)) / 1000


class Engine:
    """An open store. Made by `open_engine`; safe to use from many tasks of one event loop."""

    def __init__(self, settings: ClickHouseSettings) -> None:
        self.kind: Final[Kind] = kind_of(settings.url)
        self.address: Final = address_of(settings.url)
        self.database: Final = settings.database
        self.version = ""
        self._settings = settings
        self._handles = HandlePool(self._connect, _HANDLES[self.kind])
        # Calls queue here, on the loop; only one that waits for an abandoned call's handle
        # waits in a thread.
        self._limiter = anyio.CapacityLimiter(_HANDLES[self.kind])
        self._running: set[_Call] = set()
        self._killers = ThreadPoolExecutor(_HANDLES[self.kind], thread_name_prefix="store-kill")
        self._is_closed = False

    async def query(
        self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a statement; moments come back aware, in UTC."""

        def work(client: Client, settings: dict[str, Any]) -> list[dict[str, Any]]:
            result = client.query(sql, parameters=dict(params or {}), settings=settings)
            return list(result.named_results())

        return await self._call(work, timeout_s)

    async def command(
        self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Run a statement that has no rows to return."""

        def work(client: Client, settings: dict[str, Any]) -> None:
            client.command(sql, parameters=dict(params or {}), settings=settings)

        await self._call(work, timeout_s)

    async def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Add rows, in the order of `columns`; when this returns they survive a crash."""
        if not rows:
            return

        def work(client: Client, settings: dict[str, Any]) -> None:
            try:
                client.insert(table, rows, column_names=columns, settings=settings)
            except _UNFIT as error:
                raise DataError(f"A row does not fit {table}: {type(error).__name__}") from error

        await self._call(work, timeout_s)

    async def ping(self) -> None:
        """Raise StoreUnavailable unless the engine answers."""
        await self.query("SELECT 1")

    async def close(self) -> None:
        """End what still runs and let go of the engine; harmless when repeated."""
        for call in self._running:
            self._stop(call)
        self._is_closed = True
        await to_thread.run_sync(self._close)

    async def prepare(self) -> None:
        """Connect and create the database: the part of opening that may fail."""
        try:
            await self._connect_first()
        except BaseException:
            # A handle that is still being opened is closed by the thread that opens it.
            self._handles.close(timeout_s=0)
            raise

    async def _connect_first(self) -> None:
        # An embedded engine takes as long as its tables need to load; a server must answer.
        limit_s = self._settings.timeout_seconds if self.kind == "server" else None
        try:
            with anyio.fail_after(limit_s):
                await to_thread.run_sync(self._prepare, abandon_on_cancel=limit_s is not None)
        except TimeoutError as error:
            raise StoreUnavailable(
                f"ClickHouse at {self.address} does not answer within {limit_s:g} s",
                hint="check [clickhouse] url, or raise timeout_seconds",
            ) from error
        except (Error, HTTPError) as error:
            raise self._refusal(error, self._settings.timeout_seconds) from error

    def _prepare(self) -> None:
        with self._handles.lend(self._settings.timeout_seconds) as client:
            self.version = client.server_version or ""
            # A user who may not create databases can still use one that was made for them.
            named = {"name": self.database}
            exists = "SELECT count() FROM system.databases WHERE name = {name:String}"
            cluster = self._settings.cluster
            if cluster or not client.command(exists, parameters=named, use_database=False):
                where = f" ON CLUSTER '{cluster}'" if cluster else ""
                create = f"CREATE DATABASE IF NOT EXISTS {{name:Identifier}}{where}"
                client.command(create, parameters=named, use_database=False)

    async def _call(self, work: _Work[_T], timeout_s: float | None) -> _T:
        limit_s = self._settings.timeout_seconds if timeout_s is None else timeout_s
        call = _Call(limit_s)
        self._running.add(call)
        try:
            with anyio.fail_after(limit_s):
                return await to_thread.run_sync(
                    partial(self._run, call, work), abandon_on_cancel=True, limiter=self._limiter
                )
        except TimeoutError as error:
            self._stop(call)
            raise deadline_exceeded(self.address, limit_s) from error
        except anyio.get_cancelled_exc_class():
            self._stop(call)
            raise
        except (Error, HTTPError) as error:
            raise (_closed() if call.is_abandoned else self._refusal(error, limit_s)) from error
        finally:
            self._running.discard(call)

    def _run(self, call: _Call, work: _Work[_T]) -> _T:
        """Do the work in this thread, which keeps its handle to the end, awaited or not."""
        call.has_begun = True
        try:
            with self._handles.lend(call.remaining_s()) as client:
                if call.is_abandoned:
                    raise _closed()
                remaining_s = call.remaining_s()
                if isinstance(client, HttpClient):
                    client.timeout = Timeout(
                        connect=remaining_s, read=remaining_s + _SOCKET_GRACE_S
                    )
                return work(
                    client,
                    {
                        "max_execution_time": remaining_s,
                        "timeout_overflow_mode": "throw",
                        _CALL_TAG[self.kind]: call.id,
                    },
                )
        finally:
            call.is_done.set()

    def _stop(self, call: _Call) -> None:
        # In this order: either the thread sees that it is abandoned, or we see that it has begun.
        call.is_abandoned = True
        if call.has_begun and not self._is_closed:
            self._killers.submit(self._kill, call)

    def _kill(self, call: _Call) -> None:
        if call.is_done.is_set():
            return
        try:
            with closing(connect(self._settings, timeout_s=_KILL_TIMEOUT_S)) as client:
                for pause_s in _KILL_PAUSES_S:
                    if call.is_done.wait(pause_s):
                        return
                    client.command(_KILL[self.kind], parameters={"id": call.id})
        except (CortexError, Error, HTTPError) as error:
            # The engine's own limit still ends it.
            _log.warning("Could not stop statement %s on %s: %s", call.id, self.address, error)

    def _connect(self) -> Client:
        return connect(self._settings, timeout_s=self._settings.timeout_seconds)

    def _close(self) -> None:
        self._killers.shutdown()
        self._handles.close(self._settings.timeout_seconds)

    def _refusal(self, error: Exception, timeout_s: float) -> CortexError:
        return refusal(error, address=self.address, timeout_s=timeout_s)
