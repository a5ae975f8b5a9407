"""`cortex mcp`: the stdio process between one agent and the daemon. Standard library only.

It copies lines and remembers what is unanswered (`relay.py`); when the daemon is lost it gets
another (`launch.py`). It must start in a few milliseconds and stay small: no `json`, no `socket`,
no `argparse`.
"""

from __future__ import annotations

import _socket
import os
import select
import time

# The C halves of `json` and `socket`, there in every CPython since 2.7; the modules around them
# take 25 ms to load, more than all the rest of the bridge (benchmarks/startup.py).
from _json import encode_basestring_ascii, make_scanner

from cortex.edge.launch import Launcher, LaunchFailed, daemon_command
from cortex.edge.relay import PROTOCOL, Lines, Relay
from cortex.home import SESSION_VARIABLES, Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

USAGE = "usage: cortex mcp [--toolsets a,b] [--config PATH]"
# A pipe that polls writable takes this much without blocking (PIPE_BUF).
_PIPE_BYTES = 4096
_CHUNK_BYTES = 256 * 1024
_HIGH_WATER_BYTES = 4 * 1024 * 1024
_LINGER_S = 0.8
_RETRY_S = 1.0


def main(arguments: Sequence[str], *, command: Sequence[str] | None = None) -> int:
    """Run the bridge until stdin ends; returns the exit code."""
    try:
        toolsets, config = _options(arguments)
    except ValueError as error:
        _log(f"{error}\n{USAGE}")
        return 2
    bridge = Bridge(
        Home.from_environ(os.environ), command or daemon_command(config), toolsets, config
    )
    if os.isatty(0):
        _log("speaks MCP on stdin and stdout, for an agent; Ctrl-D ends it")
    try:
        return bridge.run()
    except LaunchFailed as error:
        _log(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _options(arguments: Sequence[str]) -> tuple[list[str] | None, str | None]:
    toolsets: list[str] | None = None
    config: str | None = None
    rest = list(arguments)
    while rest:
        name, has_value, value = rest.pop(0).partition("=")
        if name not in ("--toolsets", "--config"):
            raise ValueError(f"unknown argument {name}")
        if not has_value:
            if not rest:
                raise ValueError(f"{name} needs a value")
            value = rest.pop(0)
        if name == "--config":
            config = value
        else:
            toolsets = [part.strip() for part in value.split(",") if part.strip()]
    config = config or os.environ.get("CORTEX_CONFIG")
    return toolsets, os.path.abspath(os.path.expanduser(config)) if config else None


class Bridge:
    """One agent session: stdin, stdout, and the daemon while there is one."""

    def __init__(
        self,
        home: Home,
        command: Sequence[str],
        toolsets: list[str] | None,
        config: str | None,
        *,
        stdin: int = 0,
        stdout: int = 1,
    ) -> None:
        self._home = home
        self._command = command
        self._toolsets = toolsets
        self._config = config
        self._stdin = stdin
        self._stdout = stdout
        self._relay = Relay(_parser(), _dump, _log)
        self._from_agent = Lines(self._relay.refuse)
        self._from_daemon = Lines(_skip)
        self._daemon: _socket.socket | None = None
        self._launcher: Launcher | None = None
        self._retry_at = 0.0
        self._ends_at: float | None = None

    def run(self) -> int:
        """Copy until stdin has ended and what was asked is answered, or a moment has passed."""
        try:
            while not self._is_done():
                if self._needs_daemon():
                    self._reach_daemon()
                self._turn()
            if self._relay.has_pending:
                _log("stdin ended before everything was answered")
                return 1
        except BrokenPipeError:
            return 0  # the agent closed our stdout: it is gone
        finally:
            if self._launcher is not None:
                self._launcher.close()
            if self._daemon is not None:
                self._daemon.close()
        return 0

    def _needs_daemon(self) -> bool:
        relay = self._relay
        return self._daemon is None and (relay.has_pending or not relay.was_welcomed)

    def _is_done(self) -> bool:
        if self._ends_at is None or self._relay.to_agent:
            return self._ends_at is not None and time.monotonic() > self._ends_at
        return not self._relay.has_pending or time.monotonic() > self._ends_at

    def _reach_daemon(self) -> None:
        if time.monotonic() < self._retry_at:
            return
        if self._launcher is None:
            self._launcher = Launcher(self._home, self._command)
        try:
            reached = self._launcher.step()
        except LaunchFailed as error:
            self._launcher = None
            self._be_refused(error)
            return
        if reached is not None:
            self._launcher = None
            self._daemon, secret = reached
            self._from_daemon = Lines(_skip)
            self._relay.connected(self._hello(secret))

    def _be_refused(self, problem: LaunchFailed) -> None:
        """Answer what waits; then end if the session never began, else try again when asked."""
        self._relay.give_up(f"The daemon cannot be reached: {problem}")
        if not self._relay.was_welcomed:
            while self._relay.to_agent:
                self._write_agent()
            raise problem
        _log(str(problem))
        self._retry_at = time.monotonic() + _RETRY_S

    def _hello(self, secret: str) -> bytes:
        environ = {key: os.environ[key] for key in SESSION_VARIABLES if key in os.environ}
        hello = {
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "cwd": _cwd(),
            "toolsets": self._toolsets,
            "config": self._config,
            "environ": environ,
            "secret": secret,
        }
        return _dump({"cortex": hello}) + b"\n"

    def _turn(self) -> None:
        """Wait for what can be read or written, and do it."""
        relay, daemon = self._relay, self._daemon
        readers: list[Any] = []
        writers: list[Any] = []
        if self._ends_at is None and len(relay.to_daemon) < _HIGH_WATER_BYTES:
            readers.append(self._stdin)
        if relay.to_agent:
            writers.append(self._stdout)
        if daemon is not None:
            if len(relay.to_agent) < _HIGH_WATER_BYTES:
                readers.append(daemon)
            if relay.to_daemon:
                writers.append(daemon)
        readable, writable, _ = select.select(readers, writers, [], self._patience())
        if self._stdout in writable:
            self._write_agent()
        if daemon is not None and daemon in writable:
            self._write_daemon(daemon)
        if daemon is not None and daemon in readable:
            self._read_daemon(daemon)
        if self._stdin in readable:
            self._read_agent()

    def _write_agent(self) -> None:
        count = os.write(self._stdout, self._relay.to_agent[:_PIPE_BYTES])
        del self._relay.to_agent[:count]

    def _patience(self) -> float | None:
        if self._needs_daemon():
            if self._launcher is None:
                return max(0.0, self._retry_at - time.monotonic())
            return self._launcher.pause_s
        if self._ends_at is not None:
            return max(0.0, self._ends_at - time.monotonic())
        return None

    def _read_agent(self) -> None:
        chunk = os.read(self._stdin, _CHUNK_BYTES)
        for line in self._from_agent.feed(chunk):
            self._relay.from_agent(line)
        if chunk:
            return
        self._ends_at = time.monotonic() + _LINGER_S
        rest = self._from_agent.rest().strip()
        if rest:
            _log(f"stdin ended inside a message: {len(rest)} bytes dropped")

    def _read_daemon(self, daemon: _socket.socket) -> None:
        try:
            chunk = daemon.recv(_CHUNK_BYTES)
        except OSError:
            chunk = b""
        for line in self._from_daemon.feed(chunk):
            self._relay.from_daemon(line)
        if not chunk:
            daemon.close()
            self._daemon = None
            self._relay.lost()
            if self._relay.refusal is not None:
                self._be_refused(LaunchFailed(self._relay.refusal))

    def _write_daemon(self, daemon: _socket.socket) -> None:
        try:
            count = daemon.send(self._relay.to_daemon[:_CHUNK_BYTES], _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            # Whatever it had said before is still there to read; the end of it tells us it is gone.
            self._relay.to_daemon.clear()
            return
        self._relay.sent(count)


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _skip(_head: bytes, _tail: bytes, size_bytes: int) -> None:
    _log(f"skipped a line of the daemon: {size_bytes} bytes")


def _log(text: str) -> None:
    os.write(2, f"cortex mcp: {text}\n".encode("utf-8", "replace"))


def _dump(value: Any) -> bytes:
    """Write JSON: only what hello lines and error answers are made of."""
    return _encode(value).encode()


def _encode(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        pairs = (f"{encode_basestring_ascii(key)}:{_encode(item)}" for key, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_encode, value)) + "]"
    return repr(value)


class _Decoder:
    """What the scanner asks of a decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def _parser() -> Callable[[bytes], Any]:
    scan: Any = make_scanner(_Decoder())  # pyright: ignore[reportArgumentType]

    def parse(line: bytes) -> Any:
        text = line.decode().strip(" \t\r\n")
        try:
            value, end = scan(text, 0)
        except StopIteration:
            raise ValueError("no JSON value") from None
        except SystemError:
            # It wants to raise an error of `json.decoder` and, before 3.13, does not load it.
            import json  # noqa: PLC0415

            return json.loads(text)
        if end != len(text):
            raise ValueError("more than one JSON value")
        return value

    return parse
