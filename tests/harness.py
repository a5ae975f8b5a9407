"""Real processes on a temporary home: the daemon, bridges and commands, and their end."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self, cast

from cortex.daemon.lock import holder
from cortex.home import SESSION_VARIABLES, Home

ROOT = Path(__file__).resolve().parent.parent
CORTEX = [sys.executable, str(ROOT / "src" / "cortex" / "__main__.py")]
PROBE = [sys.executable, str(ROOT / "tests" / "probe.py")]
PROBE_BRIDGE = [sys.executable, str(ROOT / "tests" / "probe_bridge.py")]
PATIENCE_S = 30.0


def eventually(claim: Callable[[], bool], what: str) -> None:
    """Wait, within bounds, until a claim holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.01)


class Sandbox:
    """A home of its own, and every process started on it."""

    def __init__(self) -> None:
        # Not pytest's tmp_path: a socket's path may have 107 bytes and no more.
        self.root = Path(tempfile.mkdtemp(prefix="cx-"))
        self.home = Home(str(self.root / "home"))
        self.environ = {k: v for k, v in os.environ.items() if k not in SESSION_VARIABLES}
        self.environ |= {"CORTEX_HOME": self.home.root, "HOME": str(self.root)}
        for name in ("CORTEX_CONFIG", "XDG_DATA_HOME", "OTEL_EXPORTER_OTLP_ENDPOINT"):
            self.environ.pop(name, None)
        self._processes: list[subprocess.Popen[Any]] = []

    def close(self) -> None:
        """End every process and remove every file."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        self.kill_daemon()
        shutil.rmtree(self.root, ignore_errors=True)

    def configure(self, text: str) -> None:
        """Write the home's cortex.toml."""
        Path(self.home.root).mkdir(mode=0o700, exist_ok=True)
        (Path(self.home.root) / "cortex.toml").write_text(text)

    def run(
        self, *arguments: str, environ: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a `cortex` command to its end."""
        return subprocess.run(
            [*CORTEX, *arguments],
            env={**self.environ, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            **options,
        )

    def start(
        self,
        command: list[str],
        *,
        environ: Mapping[str, str] | None = None,
        stderr: int | IO[Any] = subprocess.DEVNULL,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process that is ended with the sandbox."""
        process = subprocess.Popen(
            command,
            env={**self.environ, **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=cwd,
        )
        self._processes.append(process)
        return process

    def start_daemon(self) -> subprocess.Popen[bytes]:
        """Start a daemon with the probe tools and wait until it listens."""
        process = self.start(PROBE)
        eventually(
            lambda: Path(self.home.socket).exists() or process.poll() is not None, "a daemon"
        )
        assert process.poll() is None, self.log()
        return process

    def daemon_pid(self) -> int | None:
        """Return the pid of the daemon that holds the home."""
        return holder(self.home)

    def kill_daemon(self) -> None:
        """End the daemon with SIGKILL, and wait until the kernel has taken its lock back."""
        pid = self.daemon_pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: self.daemon_pid() != pid, "the daemon's death")

    def client(
        self,
        command: list[str] | None = None,
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> "Client":
        """Start a bridge (with the probe tools behind it) and return a client of it."""
        process = self.start(command or PROBE_BRIDGE, environ=environ, **options)
        return Client(process)

    def runs(self) -> list[str]:
        """Return what the probe tools noted, in order."""
        try:
            return (Path(self.home.root) / "runs").read_text().splitlines()
        except FileNotFoundError:
            return []

    def status(self) -> dict[str, Any]:
        """Return what `cortex status` says."""
        return cast("dict[str, Any]", json.loads(self.run("status", "--json").stdout))

    def http_url(self) -> str:
        """Return where the daemon serves MCP over HTTP."""
        return str(self.status()["http"])

    def http_token(self) -> str:
        """Return the token that Cortex made for HTTP."""
        return Path(self.home.http_token).read_text().split()[1]

    def log(self) -> str:
        """Return the daemon's log."""
        try:
            return Path(self.home.log_file).read_text()
        except FileNotFoundError:
            return ""


class Client:
    """The plainest MCP client: lines out, lines in."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stdin.close()
        self.process.wait(PATIENCE_S)

    def handshake(self, version: str = "2025-06-18") -> dict[str, Any]:
        """Open the session as clients before 2026 do."""
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        response = self.request("initialize", params)
        self.notify("notifications/initialized")
        return response

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request and return its id without waiting."""
        self._next_id += 1
        self.send_message(
            {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params or {}}
        )
        return self._next_id

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send_message({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def send_message(self, message: Any) -> None:
        """Send one line of JSON."""
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._stdin.write(data)
        self._stdin.flush()

    def send_call(self, tool: str, **arguments: Any) -> int:
        """Send a tool call and return its id without waiting."""
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        line = self._stdout.readline()
        assert line, "the bridge closed its output"
        return cast("dict[str, Any]", json.loads(line))

    def receive_all(self) -> list[dict[str, Any]]:
        """Close our side and return every message until the bridge ends."""
        self._stdin.close()
        messages = [json.loads(line) for line in self._stdout]
        self.process.wait(PATIENCE_S)
        return messages

    def answer_to(self, request_id: int) -> dict[str, Any]:
        """Return the answer to one request; others before it are dropped."""
        while True:
            message = self.receive()
            if message.get("id") == request_id:
                return message

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its answer."""
        return self.answer_to(self.send(method, params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the JSON-RPC response."""
        return self.answer_to(self.send_call(tool, **arguments))


def sandbox() -> Iterator[Sandbox]:
    """Yield a sandbox and clean up after it: the body of a fixture."""
    box = Sandbox()
    try:
        yield box
    finally:
        box.close()
