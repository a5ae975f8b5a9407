"""The backend of a supervisord that runs here already: XML-RPC over its unix socket or loopback."""

import http.client
import socket
import xmlrpc.client
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from cortex.clock import Clock
from cortex.errors import NotFound, Unavailable
from cortex.toolsets.operations.services.models import Restarted, ServiceReport, State

_ASK_S = 5.0
_POLL_S = 0.05
_BAD_NAME, _ALREADY_STARTED, _NOT_RUNNING = 10, 60, 70

_STATES: Mapping[str, State] = {
    "STOPPED": "stopped",
    "STARTING": "starting",
    "RUNNING": "running",
    "BACKOFF": "backoff",
    "STOPPING": "degraded",
    "EXITED": "stopped",
    "FATAL": "failed",
    "UNKNOWN": "degraded",
}
_AT_REST = frozenset({"STOPPED", "EXITED", "FATAL"})
_SETTLED = frozenset({"RUNNING", "FATAL", "EXITED", "BACKOFF", "UNKNOWN"})


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ASK_S)
        self._path = path

    def connect(self) -> None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.settimeout(_ASK_S)
            stream.connect(self._path)
        except OSError:
            stream.close()
            raise
        self.sock = stream


class _Transport(xmlrpc.client.Transport):
    """A connection of its own for each question, with a time limit."""

    def __init__(self, connection: Callable[[], http.client.HTTPConnection]) -> None:
        super().__init__()
        self._new = connection

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        # User and password are taken out of the address here, and become a header.
        _, self._extra_headers, _ = self.get_host_info(host)
        connection = self._new()
        self._connection = host, connection  # what `close` closes
        return connection


class Supervisord:
    """Services of a supervisord; it keeps them up, we only ask."""

    name = "supervisord"

    def __init__(self, url: str, clock: Clock) -> None:
        """`unix://[user:password@]/path/to.sock`, or `http://[user:password@]127.0.0.1:9001`."""
        self._clock = clock
        parts = urlsplit(url)
        if parts.scheme == "unix":
            path = parts.path
            self._transport = lambda: _Transport(lambda: _UnixConnection(path))
            account = parts.netloc.rpartition("@")[0]
            self._address = (
                f"http://{account}@localhost/RPC2" if account else "http://localhost/RPC2"
            )
        else:
            host, port = parts.hostname or "127.0.0.1", parts.port or 9001
            self._transport = lambda: _Transport(
                lambda: http.client.HTTPConnection(host, port, timeout=_ASK_S)
            )
            self._address = f"http://{parts.netloc}/RPC2"

    async def reports(self) -> Sequence[ServiceReport]:
        processes = cast("list[dict[str, Any]]", await self._ask("getAllProcessInfo"))
        return [_report(process) for process in processes]

    async def start(self, service: str) -> None:
        await self._ask("startProcess", service, False, accepted=_ALREADY_STARTED)

    async def stop(self, service: str, *, patience_s: float | None = None) -> None:
        """Stop a service; without a patience supervisord's own `stopwaitsecs` holds."""
        if patience_s is None or patience_s > 0:
            await self._ask("stopProcess", service, False, accepted=_NOT_RUNNING)
            with anyio.move_on_after(patience_s):
                await self._until(service, _AT_REST)
                return
        # Told to stop before it is killed: else supervisord would start it again.
        await self._ask("stopProcess", service, False, accepted=_NOT_RUNNING)
        await self._ask("signalProcess", service, "KILL", accepted=_NOT_RUNNING)
        with anyio.move_on_after(_ASK_S):
            await self._until(service, _AT_REST)
            return
        raise Unavailable(f"service {service} did not end, not even by force")

    async def restart(self, service: str, *, is_forced: bool, timeout_s: float) -> Restarted:
        began_s = self._clock.monotonic()
        deadline = anyio.current_time() + timeout_s
        before = _STATES[await self._state(service)]
        with anyio.CancelScope(shield=True):  # a caller that leaves must not leave it stopped
            await self.stop(service, patience_s=0 if is_forced else timeout_s)
            await self.start(service)
        with anyio.move_on_at(deadline):
            await self._until(service, _SETTLED)
        after = _STATES[await self._state(service)]
        return Restarted(before, after, self._clock.monotonic() - began_s)

    async def _until(self, service: str, states: frozenset[str]) -> None:
        while await self._state(service) not in states:  # noqa: ASYNC110  # it tells nobody
            await anyio.sleep(_POLL_S)

    async def _state(self, service: str) -> str:
        answer = cast("dict[str, Any]", await self._ask("getProcessInfo", service))
        state = str(answer["statename"])
        return state if state in _STATES else "UNKNOWN"

    async def _ask(self, method: str, *arguments: object, accepted: int | None = None) -> object:
        return await anyio.to_thread.run_sync(lambda: self._asked(method, arguments, accepted))

    def _asked(self, method: str, arguments: tuple[object, ...], accepted: int | None) -> object:
        try:
            with xmlrpc.client.ServerProxy(
                self._address, transport=self._transport(), allow_none=True
            ) as server:
                return getattr(server.supervisor, method)(*arguments)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode == accepted:
                return None
            if fault.faultCode == _BAD_NAME and arguments:
                raise NotFound("service", str(arguments[0])[:128]) from fault
            raise Unavailable(f"supervisord refuses {method}: {fault.faultString}") from fault
        except xmlrpc.client.ProtocolError as error:
            raise Unavailable(
                f"supervisord refuses us: {error.errcode} {error.errmsg}",
                hint="see the user and password of its [unix_http_server] or [inet_http_server]",
            ) from error
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            raise Unavailable(
                f"supervisord does not answer: {error}", hint="see whether it runs"
            ) from error


def _report(process: dict[str, Any]) -> ServiceReport:
    group, name = str(process["group"]), str(process["name"])
    return ServiceReport(
        name=name if group == name else f"{group}:{name}",
        backend="supervisord",
        state=_STATES.get(str(process["statename"]), "degraded"),
        pid=int(process["pid"]) or None,
        detail=str(process["spawnerr"] or process["description"]),
    )
