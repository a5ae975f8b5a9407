"""The backend of systemd: its D-Bus interface, spoken by systemd's own client, `busctl`."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import anyio

from cortex.clock import Clock
from cortex.errors import NotFound, Unavailable
from cortex.toolsets.operations.services.models import Restarted, ServiceReport, State

Bus = Literal["user", "system"]

_ASK_S = 5.0
_POLL_S = 0.05
_DESTINATION = "org.freedesktop.systemd1"
_OBJECT = "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"

_STATES: Mapping[str, State] = {
    "active": "running",
    "reloading": "running",
    "refreshing": "running",
    "activating": "starting",
    "deactivating": "degraded",
    "maintenance": "degraded",
    "inactive": "stopped",
    "failed": "failed",
}


class Systemd:
    """The units the operator named; systemd keeps them up, we only ask."""

    name = "systemd"

    def __init__(
        self, units: Sequence[str], clock: Clock, *, bus: Bus = "user", busctl: str = "busctl"
    ) -> None:
        self._units = tuple(u if "." in u else f"{u}.service" for u in units)
        self._clock = clock
        self._command = (busctl, f"--{bus}", "--json=short", "--no-pager", f"--timeout={_ASK_S:g}")

    async def reports(self) -> Sequence[ServiceReport]:
        if not self._units:
            return []
        return [_report(row) for row in await self._rows(self._units)]

    async def start(self, service: str) -> None:
        await self._manage("StartUnit", self._known(service))

    async def stop(self, service: str, *, patience_s: float | None = None) -> None:
        """Stop a unit; without a patience systemd's own `TimeoutStopSec` holds."""
        unit = self._known(service)
        await self._manage("StopUnit", unit)
        if patience_s is None or patience_s > 0:
            with anyio.move_on_after(patience_s):
                await self._until(unit, ("stopped", "failed"))
                return
        await self._call("KillUnit", "ssi", unit, "all", "9")
        with anyio.move_on_after(_ASK_S):
            await self._until(unit, ("stopped", "failed"))
            return
        raise Unavailable(f"unit {unit} did not end, not even by force")

    async def restart(self, service: str, *, is_forced: bool, timeout_s: float) -> Restarted:
        unit = self._known(service)
        began_s = self._clock.monotonic()
        deadline = anyio.current_time() + timeout_s
        before = await self._state(unit)
        with anyio.CancelScope(shield=True):  # a caller that leaves must not leave it stopped
            await self.stop(unit, patience_s=0 if is_forced else timeout_s)
            await self.start(unit)
        with anyio.move_on_at(deadline):
            await self._until(unit, ("running", "failed"))
        return Restarted(before, await self._state(unit), self._clock.monotonic() - began_s)

    def _known(self, service: str) -> str:
        for unit in self._units:
            if service in (unit, unit.removesuffix(".service")):
                return unit
        raise NotFound("service", service[:128], known=sorted(self._units)[:20])

    async def _until(self, unit: str, states: tuple[State, ...]) -> None:
        while await self._state(unit) not in states:  # noqa: ASYNC110  # its signals are not listened to
            await anyio.sleep(_POLL_S)

    async def _state(self, unit: str) -> State:
        rows = await self._rows((unit,))
        return _report(rows[0]).state

    async def _rows(self, units: tuple[str, ...]) -> list[list[Any]]:
        answer = await self._call("ListUnitsByNames", "as", str(len(units)), *units)
        return cast("list[list[Any]]", answer["data"][0])

    async def _manage(self, method: str, unit: str) -> None:
        rows = await self._rows((unit,))
        if rows[0][2] == "not-found":
            raise NotFound("unit of systemd", unit)
        await self._call(method, "ss", unit, "replace")

    async def _call(self, method: str, signature: str, *arguments: str) -> dict[str, Any]:
        command = [
            *self._command,
            *("call", _DESTINATION, _OBJECT, _MANAGER, method, signature, *arguments),
        ]
        try:
            with anyio.fail_after(_ASK_S + 1):
                done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
        except TimeoutError as error:
            raise Unavailable(f"systemd did not answer {method}") from error
        except OSError as error:
            raise Unavailable(
                f"cannot ask systemd: {error.strerror}", hint="busctl comes with systemd"
            ) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[:300]
            raise Unavailable(f"systemd refuses {method}: {said}")
        return cast("dict[str, Any]", json.loads(done.stdout)) if done.stdout.strip() else {}


def _report(row: list[Any]) -> ServiceReport:
    """Read one unit: name, description, load, active and sub state, and more."""
    name, load, active, sub = str(row[0]), str(row[2]), str(row[3]), str(row[4])
    state = _STATES.get(active, "degraded")
    # Waiting for the next try after a crash is `activating` to systemd, too.
    if sub == "auto-restart":
        state = "backoff"
    if load == "not-found":
        state = "failed"
    detail = "systemd has no such unit" if load == "not-found" else sub
    return ServiceReport(
        name=name.removesuffix(".service"), backend="systemd", state=state, detail=detail
    )
