"""Waiting for something to become so, without looking again and again."""

from collections.abc import Callable

import anyio


class Changes:
    """Wakes everybody who waits, at every change; each looks for itself whether it matters."""

    def __init__(self) -> None:
        self._next = anyio.Event()

    def tell(self) -> None:
        """Something changed."""
        self._next.set()
        self._next = anyio.Event()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Return once it is so."""
        while not is_so():
            await self._next.wait()
