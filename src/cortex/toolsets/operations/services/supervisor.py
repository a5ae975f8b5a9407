"""Our own backend: the declared services, kept up by the daemon and found again after its death."""

import logging
from collections.abc import Mapping, Sequence

import anyio
import anyio.to_thread

from cortex.errors import Conflict, NotFound
from cortex.settings.services import ServiceSettings, start_order
from cortex.toolsets.operations.services import processes
from cortex.toolsets.operations.services.models import Restarted, ServiceReport
from cortex.toolsets.operations.services.queries import Record
from cortex.toolsets.operations.services.unit import Ground, Unit

log = logging.getLogger(__name__)

_LOG_LOOK_S = 1.0
_LOG_RETRY_S = 60.0
_ABANDONED_PATIENCE_S = 5.0
# More than a kill may take.
_STUCK_S = 1.0


class Supervisor:
    """Keeps every declared service as it shall be. There must be one in a home: the lock's holder.

    `run` goes on until cancelled; `stop_all` before that ends the services in order. Cancelled
    without it, the services go on and the next daemon finds them.
    """

    name = "cortex"

    def __init__(self, declared: Mapping[str, ServiceSettings], ground: Ground) -> None:
        self._ground = ground
        self._units: dict[str, Unit] = {}
        for service in start_order(declared):
            self._units[service] = Unit(
                service, declared[service], ground, lambda name=service: self._blockers(name)
            )
        self._restarting: set[str] = set()

    async def run(self) -> None:
        """Find what an earlier daemon left, then keep everything up."""
        records = await self._ground.records.all()
        for service in records.keys() - self._units.keys():
            await self._abandon(records[service])
        async with anyio.create_task_group() as group:
            for service, unit in self._units.items():
                group.start_soon(unit.run, records.get(service), name=f"service {service}")
            group.start_soon(self._rotate_logs)

    async def _abandon(self, record: Record) -> None:
        """End a service that is declared no longer."""
        if record.token is not None:
            log.info("service %s is declared no longer: stopping it", record.name)
            is_gone = await processes.end(
                record.token, record.process, patience_s=_ABANDONED_PATIENCE_S
            )
            if not is_gone:
                log.error("service %s left processes that cannot be killed", record.name)
                return
        await self._ground.records.remove(record.name)

    async def _rotate_logs(self) -> None:
        while True:
            wait_s = _LOG_LOOK_S
            for service in self._units:
                try:
                    await anyio.to_thread.run_sync(self._ground.logs.rotate, service)
                except OSError as error:
                    log.warning("the log of service %s grows: %s", service, error)
                    wait_s = _LOG_RETRY_S
            await anyio.sleep(wait_s)

    def _blockers(self, service: str) -> list[str]:
        needed = self._units[service].settings.depends_on
        return [name for name in needed if self._units[name].life.state != "running"]

    def reports_now(self) -> list[ServiceReport]:
        """Tell how every service is doing, without waiting for anything."""
        return [unit.report() for unit in self._units.values()]

    async def reports(self) -> Sequence[ServiceReport]:
        return self.reports_now()

    async def start(self, service: str) -> None:
        await self._unit(service).ask("run")

    async def stop(self, service: str, *, patience_s: float | None = None) -> None:
        unit = self._unit(service)
        await unit.ask("stop", patience_s=patience_s)
        await self._ground.changes.until(lambda: unit.is_at_rest)

    async def restart(self, service: str, *, is_forced: bool, timeout_s: float) -> Restarted:
        unit = self._unit(service)
        if service in self._restarting:
            raise Conflict(
                f"service {service} is being restarted already",
                hint="ask system.status how it went",
            )
        self._restarting.add(service)
        try:
            return await self._restart(unit, is_forced=is_forced, timeout_s=timeout_s)
        finally:
            self._restarting.discard(service)

    async def _restart(self, unit: Unit, *, is_forced: bool, timeout_s: float) -> Restarted:
        clock, life = self._ground.clock, unit.life
        began_s, before, launches = clock.monotonic(), life.state, life.launches
        patience_s = 0.0 if is_forced else min(unit.settings.stop_timeout_s, timeout_s)
        with anyio.move_on_after(timeout_s):
            await unit.ask("restart", patience_s=patience_s)
            await self._ground.changes.until(
                lambda: life.launches > launches and life.state != "starting"
            )
        return Restarted(before, life.state, clock.monotonic() - began_s)

    async def stop_all(self, *, within_s: float) -> None:
        """Stop every service, dependants first, and forget them: the next daemon begins anew.

        Whatever is left when the time is out is killed.
        """
        deadline = anyio.current_time() + within_s
        with anyio.move_on_at(deadline + _STUCK_S):
            async with anyio.create_task_group() as group:
                for service in self._units:
                    group.start_soon(self._stop_after_dependants, service, deadline)
        # Left only where `run` does not run, and so nobody obeyed.
        for record in (await self._ground.records.all()).values():
            if record.token is not None:
                await processes.end(record.token, record.process, patience_s=0)

    async def _stop_after_dependants(self, service: str, deadline: float) -> None:
        unit = self._units[service]
        dependants = [u for u in self._units.values() if service in u.settings.depends_on]
        with anyio.move_on_at(deadline):
            await self._ground.changes.until(lambda: all(u.is_at_rest for u in dependants))
        left_s = max(0.0, deadline - anyio.current_time())
        await self.stop(service, patience_s=min(unit.settings.stop_timeout_s, left_s))
        await unit.forget()

    def _unit(self, service: str) -> Unit:
        unit = self._units.get(service)
        if unit is None:
            raise NotFound("service", service[:128], known=sorted(self._units)[:20])
        return unit
