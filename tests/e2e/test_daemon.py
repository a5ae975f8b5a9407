"""The daemon's life: one per home, ready when it answers, drained, killed, seen."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest

from cortex.edge.launch import connect
from cortex.home import Home
from harness import CORTEX, PATIENCE_S, PROBE, ROOT, Sandbox, eventually, sandbox

pytestmark = pytest.mark.e2e

STRANGER = 65534
CORTEX_MCP = [*CORTEX, "mcp"]


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """A home with a daemon that no test harms."""
    for box in sandbox():
        # An open mask: what is private is so because Cortex makes it so.
        started = subprocess.run(
            ["sh", "-c", 'umask 0; exec "$@"', "sh", *CORTEX, "up"],
            env={**box.environ, "CORTEX_HTTP__ENABLED": "true", "CORTEX_HTTP__PORT": "0"},
            check=False,
        )
        assert started.returncode == 0
        yield box


class Line:
    """A connection to the daemon's socket, without a bridge that would hide its end."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = channel.makefile("rb")

    @classmethod
    def to(cls, home: Home) -> Self:
        reached = connect(home)
        assert reached is not None
        line = cls(socket.socket(fileno=reached[0].detach()))
        line.send({"cortex": {"protocol": 1}})
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._channel.close()

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        self._channel.sendall(data)

    def receive(self) -> dict[str, Any] | None:
        line = self._lines.readline()
        return cast("dict[str, Any]", json.loads(line)) if line else None

    def initialize(self) -> dict[str, Any] | None:
        info = {"name": "line", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        self.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        welcome = self.receive()
        assert welcome is not None
        assert "read_only" in welcome["cortex"]
        return self.receive()


# Start.


def test_many_who_start_it_at_once_get_one_daemon(box: Sandbox) -> None:
    ups = [box.start([*CORTEX, "up"]) for _ in range(4)]
    assert [up.wait(PATIENCE_S) for up in ups] == [0, 0, 0, 0]
    assert all(f"pid {box.daemon_pid()}" in output_of(up) for up in ups)
    assert box.log().count("ready:") == 1


def output_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.read().decode()


def test_first_connection_that_succeeds_is_answered(box: Sandbox) -> None:
    """There is nothing to connect to before the daemon can answer."""
    process = box.start(PROBE)
    reached: list[Line] = []

    def has_connected() -> bool:
        assert process.poll() is None
        with contextlib.suppress(AssertionError):
            reached.append(Line.to(box.home))
        return bool(reached)

    eventually(has_connected, "a connection")
    with reached[0] as line:
        answer = line.initialize()
        assert answer is not None
        assert answer["result"]["serverInfo"]["name"] == "cortex"


# End.


def test_signal_lets_a_call_in_flight_be_answered(box: Sandbox) -> None:
    daemon = box.start_daemon()
    with box.client() as client:
        client.handshake()
        pending = client.send_call("probe.echo", text="slow", wait_s=1)
        eventually(lambda: box.runs() == ["echo slow"], "the call to run")
        daemon.send_signal(signal.SIGTERM)
        eventually(lambda: not Path(box.home.socket).exists(), "the end of listening")
        assert connect(box.home) is None
        answer = client.answer_to(pending)
        assert answer["result"]["structuredContent"] == {"text": "slow", "pid": daemon.pid}
        assert daemon.wait(PATIENCE_S) == 0
    assert box.runs() == ["echo slow"]


def test_second_signal_ends_it_at_once(box: Sandbox) -> None:
    daemon = box.start_daemon()
    with box.client() as client:
        client.handshake()
        client.send_call("probe.echo", text="long", wait_s=25)
        eventually(lambda: box.runs() == ["echo long"], "the call to run")
        daemon.send_signal(signal.SIGTERM)
        eventually(lambda: not Path(box.home.socket).exists(), "the end of listening")
        daemon.send_signal(signal.SIGTERM)
        # A drained daemon ends with 0, and not before the 10 seconds are over.
        assert daemon.wait(PATIENCE_S) == 1
        client.process.kill()


def test_down_waits_for_a_call_in_flight_and_asking_twice_does_not_cut_it(box: Sandbox) -> None:
    daemon = box.start_daemon()
    with box.client() as client:
        client.handshake()
        pending = client.send_call("probe.echo", text="slow", wait_s=1.5)
        eventually(lambda: box.runs() == ["echo slow"], "the call to run")
        first = box.start([*CORTEX, "down"])
        eventually(lambda: not Path(box.home.socket).exists(), "the end of listening")
        second = box.start([*CORTEX, "down"])
        answer = client.answer_to(pending)
        assert answer["result"]["structuredContent"] == {"text": "slow", "pid": daemon.pid}
        assert (first.wait(PATIENCE_S), second.wait(PATIENCE_S)) == (0, 0)
        assert daemon.wait(PATIENCE_S) == 0
    assert box.daemon_pid() is None
    assert not Path(box.home.pid).exists()


def test_sigkill_breaks_no_chain_and_forgives_no_call(box: Sandbox) -> None:
    """50 calls in a window: the 51st is refused, whoever counts."""
    box.configure("[limits]\nwindow_seconds = 300\n")
    with box.client(CORTEX_MCP) as client:
        client.handshake()
        pending = [client.send_call("system.status") for _ in range(50)]
        answers = [client.receive() for _ in pending]
        assert all(answer["result"]["isError"] is False for answer in answers)
        first = box.daemon_pid()
        box.kill_daemon()
        assert box.run("status").returncode == 1
        assert box.run("up").returncode == 0
        assert box.daemon_pid() not in {None, first}
        refusal = client.call("system.status")["result"]
        assert refusal["isError"] is True
        assert refusal["structuredContent"]["error"]["code"] == "rate_limited"
    doctor = box.run("doctor").stdout
    assert "✓ audit: 52 records, chain unbroken" in doctor


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc/net/tcp")
def test_store_that_does_not_answer_does_not_hold_up_the_end(box: Sandbox) -> None:
    """`cortex down` kills what is not gone after 15 seconds, and says so with exit code 1."""
    server, url = start_clickhouse(box)
    daemon = box.start_daemon()
    eventually(lambda: mirrored(url) > 0, "the first record in the store")
    server.send_signal(signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        stack.callback(server.send_signal, signal.SIGCONT)
        assert box.run("call", "probe.echo").returncode == 0
        eventually(lambda: has_unread(url), "the mirror to ask the server")
        assert box.run("down").returncode == 0
        assert daemon.wait(PATIENCE_S) == 0


def has_unread(url: str) -> bool:
    """Tell whether the server at this URL has been sent something that it does not read."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(port) and not row[4].endswith(":00000000") for row in rows)


# What it leaves on the disk.


def test_files_of_the_home_are_for_their_owner_only(shared: Sandbox) -> None:
    assert shared.run("call", "system.status").returncode == 0
    home = Path(shared.home.root)
    assert (home / "http-token").exists()
    assert shared.daemon_pid() is not None
    found = [home, *home.rglob("*")]
    assert len(found) > 12
    for path in found:
        # The engine sets modes of its own inside its folder, which nobody else can enter.
        if home / "clickhouse" in path.parents:
            continue
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path} {mode:o}"


def test_logs_are_rotated_and_bounded(box: Sandbox) -> None:
    box.configure("[logs]\nmax_bytes = 10000\nbackups = 2\n")
    box.start_daemon()
    lines = 1500
    with Line.to(box.home) as line:
        # Each is skipped with a warning of some 120 bytes.
        line.send_bytes(b"{}\n" * lines)
        assert line.initialize() is not None
    logs = sorted(Path(box.home.logs).glob("cortexd.log*"))
    assert [log.name for log in logs] == ["cortexd.log", "cortexd.log.1", "cortexd.log.2"]
    assert all(log.stat().st_size <= 10_000 for log in logs)
    assert all(stat.S_IMODE(log.stat().st_mode) == 0o600 for log in logs)


# Who may speak to it.

AS_STRANGER = """
import contextlib, json, os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as channel:
    try:
        channel.connect(sys.argv[1])
    except PermissionError:
        sys.exit("cannot connect")
    channel.sendall(json.dumps({"cortex": {"protocol": 1, "role": sys.argv[3]}}).encode() + b"\\n")
    with contextlib.suppress(BrokenPipeError):
        channel.sendall(b'{"op": "status"}\\n')
    print(channel.makefile().readline())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_even_if_the_folders_stand_open(box: Sandbox) -> None:
    box.start_daemon()
    assert "cannot connect" in as_stranger(box, "agent").stderr
    for folder in (box.root, Path(box.home.root), Path(box.home.run)):
        folder.chmod(0o755)
    Path(box.home.socket).chmod(0o666)
    for role in ("session", "cli", "control"):
        error = json.loads(as_stranger(box, role).stdout)["cortex"]["error"]
        assert error["code"] == "conflict"
        assert f"not uid {STRANGER}" in error["message"]


def as_stranger(box: Sandbox, role: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AS_STRANGER, box.home.socket, str(STRANGER), role],
        capture_output=True,
        text=True,
        check=False,
    )


# Its jobs.


def test_jobs_are_shown_by_status_and_doctor(shared: Sandbox) -> None:
    jobs = {job["name"]: job["state"] for job in shared.status()["jobs"]}
    assert set(jobs.values()) == {"running"}
    assert jobs.keys() >= {"machine", "ingest", "forget", "code", "decay", "audit", "http"}
    doctor = shared.run("doctor").stdout
    assert all(f"✓ job {name}: running since" in doctor for name in jobs)


def test_failing_job_backs_off_is_shown_and_recovers(box: Sandbox) -> None:
    """The audit mirror, on a server that stops answering and comes back."""
    server, url = start_clickhouse(box, "timeout_seconds = 3.0")
    box.start_daemon()
    eventually(lambda: mirrored(url) > 0, "the first record in the store")
    server.send_signal(signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        stack.callback(server.send_signal, signal.SIGCONT)
        # It lives on without its store: reading goes on, and there is something to mirror.
        assert box.run("call", "probe.echo").returncode == 0
        eventually(lambda: audit_job(box)["state"] == "backoff", "the job to back off")
        assert url in audit_job(box)["lastError"]
        eventually(lambda: box.run("doctor").returncode == 1, "the doctor to say so")
    eventually(lambda: mirrored(url) > 1, "the job to go on")
    assert audit_job(box)["state"] == "running"
    assert audit_job(box)["restarts"] > 0


def start_clickhouse(box: Sandbox, *settings: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server, make it the store of the home, and return it and its URL."""
    script = ROOT / "tests" / "store" / "clickhouse_http.py"
    server = box.start([sys.executable, str(script), "--path", str(box.root / "server")])
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}"
    box.configure("\n".join(["[clickhouse]", f"url = '{url}'", *settings]))
    return server, url


def audit_job(box: Sandbox) -> dict[str, Any]:
    return next(job for job in box.status()["jobs"] if job["name"] == "audit")


def mirrored(url: str) -> int:
    """Ask the store how many records of the ledger it has."""
    with urllib.request.urlopen(f"{url}/?query=SELECT+count()+FROM+cortex.audit_log") as answer:
        return int(answer.read())
