"""The daemon's life: lock, open, ready, serve, drain, stop."""

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from cortex.app import App, Extension, build
from cortex.daemon.code import CodeCommands
from cortex.daemon.conversations import ConversationCommands
from cortex.daemon.jobs import Job, Jobs
from cortex.daemon.lock import HomeHeld, HomeLock
from cortex.daemon.logs import configure_logs
from cortex.daemon.mirror import AuditMirror
from cortex.daemon.report import Report
from cortex.daemon.telemetry import configure_traces
from cortex.edge.http import HttpServer, http_session, open_endpoint
from cortex.edge.launch import STATUS_VARIABLE, LaunchFailed, prepare
from cortex.edge.listen import listen
from cortex.edge.mcp_server import McpServer
from cortex.edge.socket_server import SocketServer, Tell, Welcome
from cortex.edge.wire import exit_code
from cortex.errors import CortexError, HomeError
from cortex.home import Home
from cortex.settings.load import LoadedSettings, load_settings
from cortex.store.audit_log import AuditLogTable
from cortex.toolsets.memory.desk import Desk
from cortex.toolsets.operations.models import ServiceState, ServiceStatus
from cortex.version import __version__

log = logging.getLogger(__name__)

DRAIN_S = 10.0
_M_ARENA_MAX = -8  # as in malloc.h of glibc
# Draining and closing together end before `cortex down` loses its patience.
_CLOSE_S = 3.0
_SERVICE_STATES: Mapping[str, ServiceState] = {
    "running": "running",
    "backoff": "degraded",
    "finished": "stopped",
    "stopped": "stopped",
}


class StatusPipe:
    """Tells whoever started us how it went, once: see `Launcher._watch` for the words."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        handle = environ.get(STATUS_VARIABLE)
        self._handle = int(handle) if handle else None
        if self._handle is not None:
            os.set_inheritable(self._handle, False)

    @property
    def is_open(self) -> bool:
        """Whether somebody waits for word."""
        return self._handle is not None

    def say(self, text: str) -> None:
        """Say it and hang up; nobody listening is not our trouble."""
        if self._handle is None:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._handle, " ".join(text.split()).encode())
        os.close(self._handle)
        self._handle = None


def run_daemon(
    home: Home,
    config: Path | None,
    environ: Mapping[str, str],
    *,
    extensions: Sequence[Extension] = (),
) -> int:
    """Run the daemon until it is told to stop; returns the exit code."""
    status = StatusPipe(environ)
    is_detached = status.is_open
    if is_detached and os.fork() > 0:
        os._exit(0)  # whoever started us need not live as long as we do, nor bury us
    os.umask(0o077)
    _share_arenas()
    try:
        prepare(home)
        lock = HomeLock.acquire(home)
        try:
            _use_private_folder(home)
            loaded = load_settings(home=Path(home.root), config=config, environ=environ)
            configure_logs(home, loaded.settings.logs, to_stderr=not is_detached)
            flush_traces = configure_traces(loaded.settings.telemetry)
            anyio.run(_serve, home, loaded, status, extensions, flush_traces)
        finally:
            lock.release()
    except HomeHeld as error:
        status.say(f"held {error.pid}")
        problem, code = str(error), 1
    except LaunchFailed as error:
        problem, code = str(error), error.exit_code
    except CortexError as error:
        problem, code = str(error), exit_code(error)
    except OSError as error:
        problem, code = f"cannot use the home {home}: {error}", 1
    else:
        return 0
    status.say(f"error {code} {problem}")
    if is_detached:
        log.error("not started: %s", problem)
    sys.stderr.write(f"cortex: {problem}\n")
    return code


def _share_arenas() -> None:
    """Have threads share two arenas of the C library's memory; one each keeps 35 MB for itself."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:  # musl has no arenas
        set_option(_M_ARENA_MAX, 2)


def _use_private_folder(home: Home) -> None:
    """Keep temporary files (an insert is one) in the home, and clear what a crash left there."""
    shutil.rmtree(home.temporary, ignore_errors=True)
    try:
        Path(home.temporary).mkdir(mode=0o700)
    except OSError as error:
        raise HomeError(f"cannot write to the home {home}: {error.strerror}") from error
    tempfile.tempdir = home.temporary


async def _serve(
    home: Home,
    loaded: LoadedSettings,
    status: StatusPipe,
    extensions: Sequence[Extension],
    flush_traces: Callable[[], None],
) -> None:
    settings = loaded.settings
    jobs: list[Job] = []
    app = await build(settings, home, services=lambda: _services(jobs), extensions=extensions)
    async with contextlib.AsyncExitStack() as stack:
        # Open to the very end: a signal that came while we close would else kill us half-way.
        signals = stack.enter_context(
            anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        )
        stack.push_async_callback(_close, app)
        # Before the store is closed, which may end the process when it takes too long.
        stack.push_async_callback(anyio.to_thread.run_sync, flush_traces)
        supervisor = Jobs(app.clock)
        supervisor.add("machine", app.cpu_history.run, owner="operations")
        supervisor.add("ingest", app.ingest.run, owner="conversations")
        supervisor.add("forget", app.forgetter.run, owner="conversations")
        supervisor.add("search log", app.search_log.run, owner="conversations")
        supervisor.add("code", app.code.run, owner="code")
        supervisor.add("vectors", app.vectors.run, owner="code")
        supervisor.add("decay", app.memories.upkeep.run_decay, owner="memory")
        supervisor.add("memory vectors", app.memories.upkeep.run_embedding, owner="memory")
        mirror = AuditMirror(app.journal, AuditLogTable(app.engine))
        supervisor.add("audit", mirror.run, owner="daemon")
        server = McpServer(
            app.pipeline,
            tool_names=settings.mcp.tool_names,
            http_session=lambda request: http_session(
                request,
                app.clock,
                toolsets=app.pipeline.registry.toolsets(),
                allow_mutations=settings.policy.allow_mutations,
            ),
        )
        http: HttpServer | None = None
        report = Report(app, loaded, home, supervisor)
        if settings.http.enabled:
            endpoint = open_endpoint(settings.http, home.http_token)
            http = HttpServer(endpoint, server)
            report.http_url = endpoint.url
            supervisor.add("http", http.run, owner="edge")
        jobs.extend(supervisor)
        stop = anyio.Event()
        sockets = await _open_sockets(home, loaded, app, server, report=report, stop=stop)
        report.sessions = lambda: sockets.sessions
        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.run)
            group.start_soon(sockets.run)
            group.start_soon(_obey_signals, signals, stop)
            log.info("ready: %s, store %s %s", home, app.engine.kind, app.engine.version)
            Path(home.start_error).unlink(missing_ok=True)
            status.say("ready")
            await stop.wait()
            log.info("stopping")
            with anyio.move_on_after(DRAIN_S + 1):
                async with anyio.create_task_group() as draining:
                    draining.start_soon(sockets.drain, DRAIN_S)
                    if http is not None:
                        draining.start_soon(http.stop)
            group.cancel_scope.cancel()
    log.info("stopped")


async def _close(app: App) -> None:
    """Close everything; a server that does not answer may not hold us for its whole timeout."""
    last = threading.Timer(_CLOSE_S, _leave)
    last.daemon = True  # never cancelled: threads that wait for the store outlive `app.close`
    last.start()
    await app.close()


def _leave() -> None:
    log.warning("stopped without the store: it did not close within %g s", _CLOSE_S)
    os._exit(0)


async def _open_sockets(
    home: Home,
    loaded: LoadedSettings,
    app: App,
    server: McpServer,
    *,
    report: Report,
    stop: anyio.Event,
) -> SocketServer:
    async def stop_soon(_arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        stop.set()
        return {"pid": os.getpid()}

    conversations = ConversationCommands(app)
    specs = list(app.pipeline.registry)
    read_only = [spec for spec in specs if not spec.policy.mutates]
    welcome = Welcome(
        pid=os.getpid(),
        version=__version__,
        config=str(loaded.config_path) if loaded.config_path else None,
        read_only=tuple(sorted({n for s in read_only for n in (s.name, s.underscored)})),
        toolsets=app.pipeline.registry.toolsets(),
        max_sessions=loaded.settings.limits.max_sessions,
        allow_mutations=loaded.settings.policy.allow_mutations,
    )
    control = {
        "status": report.status,
        "tools": report.tools,
        "verify": report.verify,
        "ingest": report.ingest,
        "sessions": conversations.sessions,
        "forget": conversations.forget,
        "code.refresh": CodeCommands(app).refresh,
        "stop": stop_soon,
        **Desk(app.memories).commands(),
    }
    return SocketServer(await listen(home), server, control, welcome, clock=app.clock, ids=app.ids)


async def _obey_signals(signals: AsyncIterator[signal.Signals], stop: anyio.Event) -> None:
    # Counted apart from `cortex down`: one signal after it is not yet impatience.
    await anext(signals)
    stop.set()
    await anext(signals)
    os._exit(1)


def _services(jobs: Sequence[Job]) -> list[ServiceStatus]:
    return [
        ServiceStatus(name=job.name, status=_SERVICE_STATES[job.state], version=__version__)
        for job in jobs
    ]
