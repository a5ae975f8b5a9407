"""How often a tool may be called. The counting itself is a part that is passed in."""

import logging
from dataclasses import dataclass
from typing import Protocol

from cortex.errors import RateLimited, Unavailable
from cortex.gateway.spec import RateLimit

log = logging.getLogger(__name__)


class CallCounter(Protocol):
    """Counts calls in a sliding window: in SQLite here, elsewhere where several daemons share."""

    async def hit(self, key: str, *, calls: int, window_s: float) -> int | None:
        """Count one call and return None, or count nothing and return the milliseconds to wait."""
        ...


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """Lets each principal call each tool so many times in any window, and no more."""

    counter: CallCounter

    async def hit(self, principal: str, tool: str, limit: RateLimit) -> None:
        """Count one call, or raise `RateLimited` with the time after which one is let through."""
        try:
            wait_ms = await self.counter.hit(
                f"{principal}\n{tool}", calls=limit.calls, window_s=limit.per_s
            )
        except Unavailable as error:
            # A full disk: better an agent that reads too often than one that cannot read. A change
            # is stopped all the same, since its intent cannot be written.
            log.warning("a call of %s was not counted: %s", tool, error)
            return
        if wait_ms is not None:
            raise RateLimited(tool, calls=limit.calls, window_s=limit.per_s, retry_after_ms=wait_ms)
