"""Who keeps services up: the interface of every backend, and all of them as one."""

from collections.abc import Sequence
from typing import Protocol

from cortex.errors import NotFound, Unavailable
from cortex.toolsets.operations.services.models import Restarted, ServiceReport


class ServiceBackend(Protocol):
    """Keeps services up, and answers for them. A name it does not have is NotFound."""

    @property
    def name(self) -> str:
        """What the backend is called in a report."""
        ...

    async def reports(self) -> Sequence[ServiceReport]:
        """Tell how every service is doing; Unavailable when the backend is away."""
        ...

    async def start(self, service: str) -> None:
        """Start a service; one that runs goes on."""
        ...

    async def stop(self, service: str, *, patience_s: float | None = None) -> None:
        """Stop a service: politely, and by force once patience is out; back when it is gone."""
        ...

    async def restart(self, service: str, *, is_forced: bool, timeout_s: float) -> Restarted:
        """Stop and start a service, all within the time; then tell how it is, whatever that is."""
        ...


class ServiceDirectory:
    """All backends as one; of two services with one name the first backend's counts."""

    def __init__(self, backends: Sequence[ServiceBackend]) -> None:
        self._backends = tuple(backends)

    async def reports(self) -> list[ServiceReport]:
        """Tell how every service of every backend is doing."""
        found: dict[str, ServiceReport] = {}
        for backend in self._backends:
            for report in await backend.reports():
                found.setdefault(report.name, report)
        return list(found.values())

    async def find(self, service: str) -> ServiceBackend:
        """Return who keeps this service up; a backend that is away hides only what it has."""
        known: list[str] = []
        away: Unavailable | None = None
        for backend in self._backends:
            try:
                names = [report.name for report in await backend.reports()]
            except Unavailable as error:
                away = error
                continue
            if service in names:
                return backend
            known += names
        if away is not None:
            raise away
        raise NotFound("service", service[:128], known=sorted(set(known))[:20])

    async def restart(self, service: str, *, is_forced: bool, timeout_s: float) -> Restarted:
        """Restart a service, whoever keeps it up."""
        backend = await self.find(service)
        return await backend.restart(service, is_forced=is_forced, timeout_s=timeout_s)
