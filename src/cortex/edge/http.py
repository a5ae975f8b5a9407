"""Streamable HTTP on loopback: `/mcp` behind a bearer token, `/health` for anybody who asks."""

import contextlib
import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from cortex.clock import Clock
from cortex.edge.mcp_server import McpServer
from cortex.edge.relay import MAX_LINE_BYTES
from cortex.edge.session import Session, chosen_toolsets
from cortex.edge.wire import error_object
from cortex.errors import CortexError, SettingsError, Unavailable
from cortex.settings.models import HttpSettings

_PRINCIPAL = "cortex.principal"
_DRAIN_S = 10


class Unauthorized(CortexError):
    """No token, or one we do not know."""

    code = "forbidden"

    def __init__(self, *, is_given: bool) -> None:
        super().__init__(
            "This is not a token of this daemon" if is_given else "A bearer token is needed",
            hint="it is the second word of a line in the home's http-token file",
        )


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """A bound port and the tokens that open it."""

    channel: socket.socket
    url: str
    tokens: Mapping[str, str]
    bind: str


def open_endpoint(settings: HttpSettings, default_token_file: str) -> HttpEndpoint:
    """Bind the port and read, or make, the token file."""
    tokens = read_tokens(settings.token_file, default_token_file)
    family = socket.AF_INET6 if ":" in settings.bind else socket.AF_INET
    channel = socket.socket(family, socket.SOCK_STREAM)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        channel.bind((settings.bind, settings.port))
        channel.listen(1024)
    except OSError as error:
        channel.close()
        raise Unavailable(
            f"[http] cannot listen at {settings.bind} port {settings.port}: {error.strerror}",
            hint="set [http] port to a free one, or to 0 for any",
        ) from error
    host = f"[{settings.bind}]" if family == socket.AF_INET6 else settings.bind
    url = f"http://{host}:{channel.getsockname()[1]}/mcp"
    return HttpEndpoint(channel, url, tokens, settings.bind)


def read_tokens(chosen: Path | None, default: str) -> dict[str, str]:
    """Return tokens by name: lines of `NAME TOKEN`; the default file is made when missing."""
    path = chosen or Path(default)
    try:
        if chosen is None and not path.exists():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(f"local {secrets.token_urlsafe(32)}\n")
        mode = path.stat().st_mode & 0o077
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"[http] token_file: cannot use {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"[http] token_file: {path} is not text") from error
    if mode:
        raise SettingsError(f"[http] token_file: others can read {path}; chmod 600 it")
    tokens: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split()
        if len(parts) != 2 or len(parts[1]) < 16:
            raise SettingsError(
                f"[http] token_file: {path} line {number} must be NAME TOKEN,"
                " the token of at least 16 characters"
            )
        tokens[parts[1]] = parts[0]
    if not tokens:
        raise SettingsError(f"[http] token_file: {path} has no token")
    return tokens


class BearerGate:
    """ASGI middleware: lets `/mcp` be reached only with a known token, and notes whose it is."""

    def __init__(self, app: ASGIApp, tokens: Mapping[str, str]) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Everything but start-up and the health of the server: uvicorn offers nothing else here.
        if scope["type"] != "lifespan" and scope["path"] != "/health":
            name = self._name_of(scope)
            if name is None:
                error = Unauthorized(is_given=b"authorization" in dict(scope["headers"]))
                refusal = JSONResponse(
                    error_object(error), 401, headers={"WWW-Authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
            scope[_PRINCIPAL] = f"http:{name}"
        await self._app(scope, receive, send)

    def _name_of(self, scope: Scope) -> str | None:
        header = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, given = header.partition(b" ")
        found = None
        # Every token is compared, in constant time each, so that timing tells nothing.
        for token, name in self._tokens.items():
            if hmac.compare_digest(given.strip(), token.encode()):
                found = name
        return found if scheme.lower() == b"bearer" else None


class HttpServer:
    """Serves the endpoint until it is stopped."""

    def __init__(self, endpoint: HttpEndpoint, server: McpServer) -> None:
        self._endpoint = endpoint
        config = uvicorn.Config(
            build_app(endpoint, server),
            log_config=None,
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=_DRAIN_S,
            server_header=False,
            ws="none",
        )
        self._uvicorn = _EmbeddedServer(config)
        self._is_done = anyio.Event()

    async def run(self) -> None:
        """Serve until `stop`; a background job."""
        try:
            await self._uvicorn.serve(sockets=[self._endpoint.channel])
        finally:
            self._is_done.set()

    async def stop(self) -> None:
        """Take no new request and finish those that run."""
        self._uvicorn.should_exit = True
        await self._is_done.wait()


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon has its own."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return contextlib.nullcontext()


def build_app(endpoint: HttpEndpoint, server: McpServer) -> ASGIApp:
    """Return the ASGI application: Host and Origin checked by the SDK, tokens by us."""
    hosts = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    if not ipaddress.ip_address(endpoint.bind).is_loopback:
        hosts.append(f"{endpoint.bind}:*")
    app = server.sdk.streamable_http_app(
        max_request_body_size=MAX_LINE_BYTES,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=hosts,
            allowed_origins=[f"http://{host}" for host in hosts],
        ),
        custom_starlette_routes=[Route("/health", _health)],
    )
    return BearerGate(app, endpoint.tokens)


async def _health(_request: Request) -> Response:
    # Tells a stranger that something lives here and nothing else.
    return JSONResponse({"status": "ok"})


def http_session(
    request: Request, clock: Clock, *, toolsets: frozenset[str], allow_mutations: bool
) -> Session:
    """Return the session an HTTP request belongs to; `/mcp?toolsets=a,b` offers only these."""
    wanted = request.query_params.get("toolsets")
    return Session(
        session_id=request.headers.get("mcp-session-id", ""),
        principal=str(request.scope[_PRINCIPAL]),
        transport="http",
        opened_at=clock.now(),
        toolsets=chosen_toolsets(wanted.split(",") if wanted else None, toolsets),
        allow_mutations=allow_mutations,
    )
