"""The rules of operations: what runs here and how the machine is doing."""

from collections import deque
from collections.abc import Callable, Collection, Sequence

import anyio

from cortex.clock import Clock
from cortex.toolsets.operations import queries
from cortex.toolsets.operations.models import (
    MemoryUse,
    Part,
    ResourceSummary,
    ServiceStatus,
    SystemResources,
    SystemStatus,
)
from cortex.version import __version__

MAX_WINDOW_S = 300
_GLANCE_S = 5.0


class CpuHistory:
    """The machine's CPU clock, read once a second, so that a window need not be waited for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readings: deque[tuple[float, queries.CpuTimes]] = deque(maxlen=MAX_WINDOW_S + 2)
        self._read()

    async def run(self) -> None:
        """Read on, for ever; a background job."""
        while True:
            await anyio.sleep(1)
            self._read()

    def _read(self) -> None:
        self._readings.append((self._clock.monotonic(), queries.cpu_times()))

    def known_s(self) -> float:
        """Return how far back the readings go."""
        return self._clock.monotonic() - self._readings[0][0]

    def percent(self, window_s: float) -> float:
        """Return how busy the machine was over the window, or over what is known of it."""
        begin = self._clock.monotonic() - window_s
        before = self._readings[0][1]
        for at, reading in reversed(self._readings):
            before = reading
            if at <= begin:
                break
        return queries.cpu_percent(before, queries.cpu_times())


class OperationsService:
    """Answers about the daemon's services and the machine."""

    def __init__(
        self,
        clock: Clock,
        history: CpuHistory,
        services: Callable[[], Sequence[ServiceStatus]],
    ) -> None:
        self._clock = clock
        self._history = history
        self._services = services
        self._started = clock.monotonic()

    def status(self, include: Collection[Part]) -> SystemStatus:
        """Return the parts that were asked for, and only these."""
        return SystemStatus(
            services=list(self._services()) if "services" in include else None,
            resources=self._summary() if "resources" in include else None,
            uptime_sec=(
                round(self._clock.monotonic() - self._started, 3) if "uptime" in include else None
            ),
            version=__version__ if "version" in include else None,
        )

    async def resources(self, window_s: int) -> SystemResources:
        """Measure over a window that ends now; waits for what the readings do not cover yet."""
        await anyio.sleep(max(0.0, window_s - self._history.known_s()))
        used_mb, total_mb = queries.memory_mb()
        return SystemResources(
            cpu=self._history.percent(window_s),
            memory=MemoryUse(used_mb=used_mb, total_mb=total_mb),
            load_avg=queries.load_average(),
        )

    def _summary(self) -> ResourceSummary:
        used_mb, _ = queries.memory_mb()
        return ResourceSummary(
            cpu=self._history.percent(_GLANCE_S),
            memory_mb=used_mb,
            load=queries.load_average()[0],
        )
