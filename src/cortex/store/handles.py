"""The pool of client handles. Blocks, so it is used from worker threads only."""

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from clickhouse_connect.driver.client import Client

from cortex.errors import StoreUnavailable
from cortex.store.connection import Kind

# How many statements run at once; further ones wait.
HANDLES: Final[Mapping[Kind, int]] = {"embedded": 4, "server": 8}


class HandlePool:
    """Handles opened when first needed, each lent to one call at a time."""

    def __init__(self, open_handle: Callable[[], Client], size: int) -> None:
        self._open_handle = open_handle
        self._size = size
        self._free: list[Client] = []
        self._open = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def lend(self, timeout_s: float) -> Generator[Client, None, None]:
        """Lend a handle for the length of a `with`; TimeoutError if none comes free in time."""
        client = self._take(timeout_s)
        try:
            yield client
        finally:
            self._give_back(client)

    def close(self, timeout_s: float) -> None:
        """Close every handle; one still lent is awaited, at most `timeout_s`, then closed later."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._free) == self._open, timeout_s)
            clients, self._free = self._free, []
            self._open -= len(clients)
        for client in clients:
            client.close()

    def _take(self, timeout_s: float) -> Client:
        with self._changed:
            if not self._changed.wait_for(self._has_room, timeout_s):
                raise TimeoutError
            if self._is_closed:
                raise StoreUnavailable("The store is closed")
            if self._free:
                return self._free.pop()
            self._open += 1
        try:
            return self._open_handle()
        except BaseException:
            with self._changed:
                self._open -= 1
                self._changed.notify()
            raise

    def _has_room(self) -> bool:
        return bool(self._free) or self._open < self._size or self._is_closed

    def _give_back(self, client: Client) -> None:
        with self._changed:
            is_late = self._is_closed
            if is_late:
                self._open -= 1
            else:
                self._free.append(client)
            self._changed.notify_all()
        if is_late:
            client.close()
