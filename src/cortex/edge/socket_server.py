"""Connections to the daemon's socket: a hello, then MCP lines, or a person's commands."""

import hmac
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import mcp_types as types
import orjson
from anyio.abc import SocketAttribute, SocketStream
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from cortex.clock import Clock, IdSource
from cortex.edge.hello import Hello, read_hello
from cortex.edge.listen import Endpoint, peer_uid
from cortex.edge.mcp_server import McpServer
from cortex.edge.relay import PROTOCOL, Lines
from cortex.edge.session import Session, chosen_toolsets
from cortex.edge.wire import error_object
from cortex.errors import Conflict, CortexError, InvalidParams, NotFound

log = logging.getLogger(__name__)

_HELLO_TIMEOUT_S = 5.0
_PROGRESS_S = 0.2
_SWITCH = "CORTEX_MCP_ALLOW_MUTATIONS"
_CHUNK_BYTES = 256 * 1024

Tell = Callable[[Mapping[str, Any]], None]
Command = Callable[[Mapping[str, Any], Tell], Awaitable[Mapping[str, Any]]]
"""Takes arguments and what tells of progress; returns an answer."""
Control = Mapping[str, Command]
"""What a person's commands may ask of the daemon, by name."""


@dataclass(slots=True)
class Connection:
    """One session's stream, and which of its requests have no answer yet."""

    session: Session
    stream: SocketStream
    unanswered: set[str | int] = field(default_factory=set[str | int])
    reading: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What every session is told, and what it must agree with."""

    pid: int
    version: str
    config: str | None
    read_only: tuple[str, ...]
    toolsets: frozenset[str]
    max_sessions: int
    allow_mutations: bool


class SocketServer:
    """Accepts connections until it is drained."""

    def __init__(
        self,
        endpoint: Endpoint,
        server: McpServer,
        control: Control,
        welcome: Welcome,
        *,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._endpoint = endpoint
        self._server = server
        self._control = control
        self._welcome = welcome
        self._clock = clock
        self._ids = ids
        self._accepting = anyio.CancelScope()
        self._connections: dict[str, Connection] = {}
        self._quiet: anyio.Event | None = None  # while draining: nothing is unanswered any more

    @property
    def sessions(self) -> list[Session]:
        """The sessions open at this moment."""
        return [connection.session for connection in self._connections.values()]

    async def run(self) -> None:
        """Serve connections until `drain` is called."""
        async with anyio.create_task_group() as group:
            with self._accepting:
                await self._endpoint.listener.serve(self._greet, group)

    async def drain(self, timeout_s: float) -> None:
        """Take nothing new, let what was asked be answered, then end every connection."""
        self._accepting.cancel()
        self._endpoint.forget()
        await self._endpoint.listener.aclose()
        for connection in self._connections.values():
            connection.reading.cancel()
        with anyio.move_on_after(timeout_s):
            if not self._is_quiet():
                self._quiet = anyio.Event()
                await self._quiet.wait()
        for connection in list(self._connections.values()):
            await connection.stream.aclose()

    def _is_quiet(self) -> bool:
        return not any(connection.unanswered for connection in self._connections.values())

    async def _greet(self, stream: SocketStream) -> None:
        """Serve one connection; whatever goes wrong in it ends it alone."""
        try:
            await self._serve(stream)
        except Exception:
            log.exception("a connection failed")

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            lines = _lines(stream)
            try:
                with anyio.fail_after(_HELLO_TIMEOUT_S):
                    hello = read_hello(await anext(lines))
                principal = self._principal(stream, hello)
                if hello.role == "control":
                    await self._serve_control(stream, lines)
                    return
                session = self._session(principal, hello)
            except CortexError as error:
                log.warning("refused a connection: %s", error)
                await _send(stream, {"cortex": error_object(error)})
                return
            except (TimeoutError, StopAsyncIteration, anyio.BrokenResourceError):
                return  # somebody looked whether we are here, or left in the middle of hello
            await self._serve_session(Connection(session, stream), lines)

    def _principal(self, stream: SocketStream, hello: Hello) -> str:
        if self._endpoint.secret:
            if not hmac.compare_digest(hello.secret.encode(), self._endpoint.secret.encode()):
                raise Conflict("the secret is not that of this daemon")
            return f"uid:{os.getuid() if hasattr(os, 'getuid') else 0}"
        uid = peer_uid(stream.extra(SocketAttribute.raw_socket))
        if uid != os.getuid():
            raise Conflict(f"this daemon serves uid {os.getuid()}, not uid {uid}")
        return f"uid:{uid}"

    def _session(self, principal: str, hello: Hello) -> Session:
        welcome = self._welcome
        if len(self._connections) >= welcome.max_sessions:
            raise Conflict(
                f"{welcome.max_sessions} sessions are open",
                hint="[limits] max_sessions allows more",
            )
        if hello.config is not None and not _is_same_file(hello.config, welcome.config):
            raise Conflict(
                f"the daemon of this home (pid {welcome.pid}) runs with"
                f" {welcome.config or 'no configuration file'}, not with {hello.config}",
                hint="stop it with `cortex down`, or use another CORTEX_HOME",
            )
        environ = hello.session_environ()
        return Session(
            session_id=self._ids.new(),
            principal=principal,
            transport="cli" if hello.role == "cli" else "stdio",
            opened_at=self._clock.now(),
            cwd=hello.cwd,
            pid=hello.pid,
            toolsets=chosen_toolsets(hello.toolsets, welcome.toolsets),
            environ=environ,
            # Exactly this word; `1` and `TRUE` do not open it. A session that says nothing has
            # what the operator's settings give to all.
            allow_mutations=(
                environ[_SWITCH] == "true" if _SWITCH in environ else welcome.allow_mutations
            ),
        )

    async def _serve_session(self, connection: Connection, lines: AsyncIterator[bytes]) -> None:
        session, welcome = connection.session, self._welcome
        self._connections[session.session_id] = connection
        hello = {
            "protocol": PROTOCOL,
            "pid": welcome.pid,
            "version": welcome.version,
            "read_only": welcome.read_only,
        }
        inward, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        answers, outward = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            with connection.reading:
                async for line in lines:
                    message = _message(line)
                    if message is not None:
                        _note_request(connection, message)
                        await inward.send(SessionMessage(message))
                inward.close()  # the agent is gone; a drained session keeps its answers coming

        async def write() -> None:
            async with outward:
                async for item in outward:
                    body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await connection.stream.send(body.encode() + b"\n")
                    if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                        connection.unanswered.discard(cast("str | int", item.message.id))
                        if self._quiet is not None and self._is_quiet():
                            self._quiet.set()

        try:
            await _send(connection.stream, {"cortex": hello})
            async with anyio.create_task_group() as group:
                group.start_soon(read)
                group.start_soon(write)
                await serve_dual_era_loop(
                    self._server.sdk,
                    requests,
                    answers,
                    lifespan_state=session,
                    session_id=session.session_id,
                )
                group.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            log.debug("session %s: the other end is gone", session.session_id)
        finally:
            del self._connections[session.session_id]
            inward.close()
            outward.close()

    async def _serve_control(self, stream: SocketStream, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            try:
                command, arguments = self._command(line)
            except CortexError as error:
                await _send(stream, error_object(error))
            else:
                await _send(stream, await self._obey(stream, command, arguments))

    def _command(self, line: bytes) -> tuple[Command, Mapping[str, Any]]:
        try:
            message = orjson.loads(line)
            name, arguments = str(message["op"]), dict(message.get("arguments", {}))
        except (KeyError, TypeError, ValueError):
            raise InvalidParams('a command is a line such as {"op": "status"}') from None
        if name not in self._control:
            raise NotFound("command", name[:64], known=sorted(self._control))
        return self._control[name], arguments

    async def _obey(
        self, stream: SocketStream, command: Command, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Run one command, telling of its progress meanwhile."""
        latest: list[Mapping[str, Any]] = []
        answer: Mapping[str, Any] = {}

        async def report() -> None:
            while True:
                await anyio.sleep(_PROGRESS_S)
                if latest:
                    await _send(stream, {"progress": latest[-1]})
                    latest.clear()

        async with anyio.create_task_group() as group:
            group.start_soon(report)
            try:
                answer = {"ok": await command(arguments, latest.append)}
            except CortexError as error:
                answer = error_object(error)
            group.cancel_scope.cancel()
        return answer


async def _lines(stream: SocketStream) -> AsyncIterator[bytes]:
    def too_long(_head: bytes, _tail: bytes, size_bytes: int) -> None:
        log.warning("skipped a line of %d bytes", size_bytes)

    cut = Lines(too_long)
    while True:
        try:
            chunk = await stream.receive(_CHUNK_BYTES)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        for line in cut.feed(chunk):
            yield line


def _is_same_file(one: str, other: str | None) -> bool:
    return other is not None and Path(one).resolve() == Path(other).resolve()


def _message(line: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        log.warning("skipped a line of %d bytes that is not a JSON-RPC message", len(line))
        return None


def _note_request(connection: Connection, message: types.JSONRPCMessage) -> None:
    if isinstance(message, types.JSONRPCRequest):
        connection.unanswered.add(message.id)
    elif isinstance(message, types.JSONRPCNotification) and (
        message.method == "notifications/cancelled" and message.params
    ):
        connection.unanswered.discard(cast("str | int", message.params.get("requestId")))


async def _send(stream: SocketStream, message: Mapping[str, Any]) -> None:
    await stream.send(orjson.dumps(message) + b"\n")
