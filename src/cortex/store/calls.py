"""How a blocking call to ClickHouse meets its deadline: in a thread, known to the engine by name.

When the deadline passes or the caller is cancelled, the caller leaves at once and the engine is
told to end the statement; the thread keeps its handle until that has happened.
"""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from clickhouse_connect.driver.httpclient import HttpClient
from urllib3 import Timeout
from urllib3.exceptions import HTTPError

from cortex.errors import CortexError, StoreUnavailable
from cortex.settings.models import ClickHouseSettings
from cortex.store.connection import Kind, address_of, connect, kind_of
from cortex.store.handles import HANDLES, HandlePool
from cortex.store.refusal import deadline_exceeded, refusal

_T = TypeVar("_T")
# Takes a handle and the settings to run its statement under.
Work = Callable[[Client, dict[str, Any]], _T]

# The embedded engine chooses query ids itself, so there a statement is known by its comment.
_TAG: Final[Mapping[Kind, str]] = {"embedded": "log_comment", "server": "query_id"}
_KILL: Final[Mapping[Kind, str]] = {
    "embedded": "KILL QUERY WHERE Settings['log_comment'] = {id:String} ASYNC",
    "server": "KILL QUERY WHERE query_id = {id:String} ASYNC",
}
# A statement that was just sent may not be in the process list yet, so a kill is repeated.
_KILL_PAUSES_S = (0.0, 0.05, 0.2, 1.0)
_KILL_TIMEOUT_S = 3.0
_SOCKET_GRACE_S = 1.0

_log = logging.getLogger(__name__)


class _Call:
    """One statement on its way: its name in the engine, and how long it may take."""

    def __init__(self, timeout_s: float) -> None:
        self.id = uuid.uuid4().hex
        self.ends_at = time.monotonic() + timeout_s
        self.has_begun = False
        self.is_abandoned = False
        self.is_done = threading.Event()

    def remaining_s(self) -> float:
        """Return the time left in whole milliseconds; never 0, which the engine reads as ever."""
        return max(1, math.ceil((self.ends_at - time.monotonic()) * 1000)) / 1000


class Calls:
    """Runs work on handles of a pool, each piece under its deadline."""

    def __init__(self, settings: ClickHouseSettings, handles: HandlePool) -> None:
        self._settings = settings
        self._kind: Final[Kind] = kind_of(settings.url)
        self._address = address_of(settings.url)
        self._handles = handles
        # Calls queue here, on the loop; only one that waits for an abandoned call's handle
        # waits in a thread.
        self._limiter = anyio.CapacityLimiter(HANDLES[self._kind])
        self._killers = ThreadPoolExecutor(HANDLES[self._kind], thread_name_prefix="store-kill")
        self._running: set[_Call] = set()
        self._is_closed = False

    async def run(self, work: Work[_T], timeout_s: float | None) -> _T:
        """Return what the work returns; by default it may take as long as the settings say."""
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
            raise deadline_exceeded(self._address, limit_s) from error
        except anyio.get_cancelled_exc_class():
            self._stop(call)
            raise
        except (Error, HTTPError, OSError, UnicodeError) as error:
            if call.is_abandoned:
                raise _closed() from error
            raise refusal(error, address=self._address, timeout_s=limit_s) from error
        finally:
            self._running.discard(call)

    async def close(self) -> None:
        """End what still runs, then close the handles."""
        for call in self._running:
            self._stop(call)
        self._is_closed = True
        await to_thread.run_sync(self._close)

    def _run(self, call: _Call, work: Work[_T]) -> _T:
        call.has_begun = True
        try:
            with self._handles.lend(call.remaining_s()) as client:
                if call.is_abandoned:
                    raise _closed()
                remaining_s = call.remaining_s()
                if isinstance(client, HttpClient):
                    read_s = remaining_s + _SOCKET_GRACE_S
                    client.timeout = Timeout(connect=remaining_s, read=read_s)
                limits = {"max_execution_time": remaining_s, "timeout_overflow_mode": "throw"}
                return work(client, {**limits, _TAG[self._kind]: call.id})
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
                    client.command(_KILL[self._kind], parameters={"id": call.id})
        except (CortexError, Error, HTTPError) as error:
            # The engine's own limit still ends it.
            _log.warning("Could not stop statement %s on %s: %s", call.id, self._address, error)

    def _close(self) -> None:
        self._killers.shutdown()
        self._handles.close(self._settings.timeout_seconds)


def _closed() -> StoreUnavailable:
    return StoreUnavailable("The store is closed")
