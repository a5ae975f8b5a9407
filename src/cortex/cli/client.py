"""How commands reach the daemon: the same socket and the same MCP as any agent."""

import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from cortex.edge.launch import LaunchFailed, connect, daemon_command, wait
from cortex.edge.relay import PROTOCOL
from cortex.edge.wire import EXIT_USAGE
from cortex.errors import CortexError, SettingsError, Unavailable
from cortex.home import SESSION_VARIABLES, Home
from cortex.version import __version__

_MCP_VERSION = "2025-11-25"


class RemoteError(CortexError):
    """An error object the daemon answered with, as an exception here."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        details = dict(error.get("details", {}))
        super().__init__(str(error["message"]), hint=str(details.get("hint", "")), details=details)
        self.remote_code = str(error["code"])


class NotRunning(Unavailable):
    """No daemon listens at this home."""

    def __init__(self) -> None:
        super().__init__("the daemon is not running", hint="start it with `cortex up`")


def launch_error(error: LaunchFailed) -> CortexError:
    """Return the error of ours for a daemon that cannot be had: its files, or its circumstances."""
    is_usage = error.exit_code == EXIT_USAGE
    return SettingsError(str(error)) if is_usage else Unavailable(str(error))


class Daemon:
    """One conversation with the daemon, line by line."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = cast("BinaryIO", channel.makefile("rb"))
        self._next_id = 0

    @classmethod
    def reach(cls, home: Home, role: str, *, config: str | None = None, start: bool = True) -> Self:
        """Connect, starting the daemon if need be, and say hello."""
        try:
            reached = wait(home, daemon_command(config)) if start else connect(home)
        except LaunchFailed as error:
            raise launch_error(error) from error
        if reached is None:
            raise NotRunning
        raw, secret = reached
        daemon = cls(socket.socket(fileno=raw.detach()))
        hello = {
            "protocol": PROTOCOL,
            "role": role,
            "pid": os.getpid(),
            "cwd": _cwd(),
            "config": config,
            "environ": {k: os.environ[k] for k in SESSION_VARIABLES if k in os.environ},
            "secret": secret,
        }
        daemon._send({"cortex": hello})
        return daemon

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._channel.close()

    def ask(
        self,
        op: str,
        arguments: Mapping[str, Any] | None = None,
        tell: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Have the daemon do something; `tell` hears how far it is."""
        self._send({"op": op, "arguments": dict(arguments or {})})
        while "progress" in (answer := self._receive()):
            tell(answer["progress"])
        if "error" in answer:
            raise RemoteError(answer["error"])
        return cast("dict[str, Any]", answer["ok"])

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool and return the JSON-RPC response: a `result` or an `error`."""
        self._receive()  # the daemon's welcome
        client = {"name": "cortex-cli", "version": __version__}
        opening = {"protocolVersion": _MCP_VERSION, "capabilities": {}, "clientInfo": client}
        self._request("initialize", opening)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self._request("tools/call", {"name": tool, "arguments": dict(arguments)})

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self._next_id and "method" not in message:
                return message

    def _send(self, message: Mapping[str, Any]) -> None:
        # A daemon that hung up may have said why before: `_receive` finds that, or its end.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            line = b""
        if not line:
            raise Unavailable("the daemon ended the connection", hint="see `cortex logs`")
        message = cast("dict[str, Any]", json.loads(line))
        greeting = message.get("cortex")
        if isinstance(greeting, dict) and "error" in greeting:
            raise RemoteError(cast("dict[str, Any]", greeting)["error"])
        return message


def _cwd() -> str | None:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return None
