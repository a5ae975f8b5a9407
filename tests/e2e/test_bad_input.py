"""Everything a person can do wrong: one line that says what and what to do, and nothing lost."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cortex.clock import RandomIds, SystemClock
from cortex.home import Home
from cortex.state.journal import Journal
from harness import CORTEX, PATIENCE_S, PROBE, Sandbox, eventually

pytestmark = pytest.mark.e2e

IS_ROOT = os.geteuid() == 0
# Root without these two is bound by the modes of files, as everybody else is.
BOUND = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if IS_ROOT else []
STRANGER = 65534

needs_modes = pytest.mark.skipif(
    IS_ROOT and shutil.which("setpriv") is None,
    reason="root may read everything, and setpriv, which takes that away, is not installed",
)


def refused(
    box: Sandbox,
    *said: str,
    exit_code: int = 1,
    config: Path | None = None,
    prefix: list[str] | None = None,
) -> None:
    """Start the daemon by `up` and by `mcp`, both at once, and see both fail for the same reason.

    The agent's stdin stays open: its bridge ends because it cannot go on.
    """
    arguments = ["--config", str(config)] if config else []
    commands = [[*(prefix or []), *CORTEX, name, *arguments] for name in ("up", "mcp")]
    up, mcp = (box.start(command, stderr=subprocess.PIPE) for command in commands)
    for process in (up, mcp):
        process.wait(PATIENCE_S)
        line = said_by(process)
        assert line.endswith("\n"), line
        assert line.count("\n") == 1, line
        assert line.startswith("cortex"), line
        assert all(words in line for words in said), line
    assert (up.returncode, mcp.returncode) == (exit_code, exit_code)
    assert box.daemon_pid() is None
    assert not Path(box.home.socket).exists()


def said_by(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read().decode()


# The configuration.


def test_missing_configuration_file_is_named(box: Sandbox) -> None:
    refused(box, "nope.toml: no such file", "--config", exit_code=2, config=box.root / "nope.toml")


def test_missing_configuration_file_of_the_environment_is_named(box: Sandbox) -> None:
    """The name is relative to where the person stands, not to where the daemon runs."""
    box.environ["CORTEX_CONFIG"] = "here.toml"
    up = box.run("up", cwd=box.root)
    assert up.returncode == 2
    assert f"{box.root / 'here.toml'}: no such file" in up.stderr


@needs_modes
def test_unreadable_configuration_file_is_named(box: Sandbox) -> None:
    box.configure("")
    (Path(box.home.root) / "cortex.toml").chmod(0)
    refused(box, "cortex.toml: not readable (Permission denied)", exit_code=2, prefix=BOUND)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mcp]\nmax_result = 3\n", "unknown key mcp.max_result; did you mean mcp.max_results?"),
        ("[http]\nport = 'three'\n", 'http.port is "three"; expected an integer'),
        ("[mcp\n", "not valid TOML"),
    ],
    ids=["unknown key", "wrong type", "broken TOML"],
)
def test_wrong_configuration_is_told_by_file_and_key(box: Sandbox, text: str, said: str) -> None:
    box.configure(text)
    refused(box, "cortex.toml: ", said, exit_code=2)
    assert (Path(box.home.root) / "cortex.toml").read_text() == text


def test_policy_file_that_does_not_parse_is_named(box: Sandbox) -> None:
    policy = box.root / "mine.cedar"
    policy.write_text("permit(")
    box.configure(f"[policy]\nfiles = ['{policy}']\n")
    refused(box, "mine.cedar: ", "parse", exit_code=2)


def test_daemon_in_the_foreground_says_the_same_one_line(box: Sandbox) -> None:
    box.configure("[mcp\n")
    foreground = box.run("run", "daemon")
    assert foreground.returncode == 2
    assert foreground.stderr.startswith("cortex: ")
    assert foreground.stderr.count("\n") == 1


# The home.


def test_home_that_is_a_file_is_refused_and_left_alone(box: Sandbox) -> None:
    Path(box.home.root).write_text("precious")
    refused(box, box.home.root, "is not a folder", "set CORTEX_HOME")
    assert Path(box.home.root).read_text() == "precious"


@needs_modes
def test_home_that_is_not_writable_is_refused_and_keeps_its_mode(box: Sandbox) -> None:
    Path(box.home.root).mkdir(mode=0o500)
    refused(box, box.home.root, "is not writable", "chmod u+rwx", prefix=BOUND)
    assert Path(box.home.root).stat().st_mode & 0o777 == 0o500


@needs_modes
def test_home_that_cannot_be_made_is_refused(box: Sandbox) -> None:
    above = box.root / "above"
    above.mkdir(mode=0o500)
    box.environ["CORTEX_HOME"] = str(above / "home")
    refused(box, "above/home", "Permission denied", "set CORTEX_HOME", prefix=BOUND)
    doctor = subprocess.run(
        [*BOUND, *CORTEX, "doctor"], env=box.environ, capture_output=True, text=True, check=False
    )
    assert doctor.returncode == 1
    assert f"cannot be made: {above} is not writable" in doctor.stdout


@pytest.mark.parametrize("prefix", [[], BOUND], ids=["may look", "may not look"])
@needs_modes
def test_home_of_another_user_is_refused(box: Sandbox, prefix: list[str]) -> None:
    if IS_ROOT:
        Path(box.home.root).mkdir(mode=0o700)
        os.chown(box.home.root, STRANGER, STRANGER)
    else:
        box.environ["CORTEX_HOME"] = "/"
    refused(box, "set CORTEX_HOME to a folder", prefix=prefix)
    assert not Path(box.home.run).exists()


def test_home_whose_socket_path_is_too_long_is_refused(box: Sandbox) -> None:
    box.home = Home(str(box.root / ("x" * 100)))
    box.environ["CORTEX_HOME"] = box.home.root
    refused(box, "is too long for this system", "set CORTEX_HOME to a shorter folder")
    assert "is too long" in box.run("run", "daemon").stderr
    assert box.run("status").returncode == 1


# The disk.


@pytest.fixture
def small_disk(box: Sandbox) -> Iterator[Path]:
    """The home on a disk of its own of 8 MB, and the file that fills it."""
    home = Path(box.home.root)
    home.mkdir(mode=0o700)
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", home],
        capture_output=True,
        text=True,
        check=False,
    )
    if mount.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mount.stderr.strip()}")
    try:
        yield home / "ballast"
    finally:
        box.kill_daemon()
        subprocess.run(["umount", "--lazy", home], check=True)


def fill(ballast: Path, *, leave_bytes: int = 0) -> None:
    """Write until the disk is full, then give a little back."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    if leave_bytes:
        os.truncate(ballast, ballast.stat().st_size - leave_bytes)


def test_start_on_a_full_disk_is_refused(box: Sandbox, small_disk: Path) -> None:
    fill(small_disk)
    refused(box, "No space left on device")


@pytest.mark.parametrize("left_kb", [24, 80], ids=["24 KB left", "80 KB left"])
def test_start_on_a_disk_that_fills_up_meanwhile_is_refused(
    box: Sandbox, small_disk: Path, left_kb: int
) -> None:
    fill(small_disk, leave_bytes=left_kb * 1024)
    refused(box, "disk")


def test_disk_that_fills_up_stops_changes_and_not_the_daemon(
    box: Sandbox, small_disk: Path
) -> None:
    box.environ["CORTEX_MCP_ALLOW_MUTATIONS"] = "true"
    box.start_daemon()
    assert box.run("call", "probe.write", '{"text": "before"}').returncode == 0
    pid = box.daemon_pid()
    fill(small_disk)
    during = box.run("call", "probe.write", '{"text": "during"}')
    assert during.returncode == 1
    assert json.loads(during.stdout)["structuredContent"]["error"]["code"] == "unavailable"
    eventually(
        lambda: any(job["state"] == "backoff" for job in box.status()["jobs"]), "a job to fail"
    )
    doctor = box.run("doctor")
    assert doctor.returncode == 1
    assert "make room" in doctor.stdout
    assert "chain unbroken" in doctor.stdout
    small_disk.unlink()
    assert box.run("call", "probe.write", '{"text": "after"}').returncode == 0
    assert box.daemon_pid() == pid
    assert box.runs() == ["write before", "write after"]
    assert "chain unbroken" in box.run("doctor").stdout


def test_disk_that_fills_up_does_not_stop_reading(box: Sandbox, small_disk: Path) -> None:
    box.start_daemon()
    fill(small_disk)
    answer = box.run("call", "system.status")
    assert answer.returncode == 0, answer.stdout


# ClickHouse.


def test_clickhouse_that_is_away_is_named(box: Sandbox) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        box.configure(f"[clickhouse]\nurl = '{url}'\n")
        refused(box, url, "connection refused", "[clickhouse] url")
        foreground = box.run("run", "daemon")
        assert foreground.stderr.count("\n") == 1, foreground.stderr


def test_clickhouse_that_does_not_answer_is_named(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        box.configure(f"[clickhouse]\nurl = '{url}'\ntimeout_seconds = 0.5\n")
        refused(box, url, "0.5 s", "timeout_seconds")


def test_clickhouse_that_refuses_the_password_is_named_without_it(box: Sandbox) -> None:
    with refusing_clickhouse() as port:
        box.configure(f"[clickhouse]\nurl = 'http://127.0.0.1:{port}'\npassword = 'hunter2'\n")
        refused(box, f":{port} refuses the user or password", "[clickhouse] username and password")
    assert "hunter2" not in box.log()


@contextlib.contextmanager
def refusing_clickhouse() -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = b"Code: 516. DB::Exception: default: Authentication failed"
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(403)
            self.send_header("X-ClickHouse-Exception-Code", "516")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_store_of_a_newer_cortex_is_refused_and_left_alone(box: Sandbox) -> None:
    future = """
import sys, chdb
store = chdb.connect(sys.argv[1])
store.query("CREATE DATABASE cortex")
store.query("CREATE TABLE cortex.schema_migrations (version UInt32, name String, checksum String,"
            " applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC'))"
            " ENGINE = ReplacingMergeTree ORDER BY (version, checksum)")
store.query("INSERT INTO cortex.schema_migrations (version, name, checksum)"
            " VALUES (9999, 'future', 'f')")
store.close()
"""
    Path(box.home.root).mkdir(mode=0o700)
    subprocess.run([sys.executable, "-c", future, box.home.clickhouse], check=True)
    refused(box, "9999_future, which this Cortex does not know", "upgrade Cortex")
    assert not Path(box.home.audit_db).exists()


# The lock.


def test_stale_lock_with_the_pid_of_another_program_means_nothing(box: Sandbox) -> None:
    Path(box.home.run).mkdir(parents=True, mode=0o700)
    bystander = box.start(["sleep", "60"])
    for file in (box.home.lock, box.home.pid):
        Path(file).write_text(f"{bystander.pid}\n")
    assert "is not running" in box.run("down").stdout
    assert box.run("up").returncode == 0
    assert box.daemon_pid() not in {None, bystander.pid}
    assert box.run("down").returncode == 0
    assert bystander.poll() is None


def test_second_daemon_says_who_holds_the_home(box: Sandbox) -> None:
    first = box.start_daemon()
    second = box.run("run", "daemon")
    assert second.returncode == 1
    assert second.stderr == f"cortex: the daemon of {box.home} runs already (pid {first.pid})\n"
    assert box.daemon_pid() == first.pid
    assert box.status()["pid"] == first.pid


# Damaged files.


def damage_with_garbage(audit: Path) -> None:
    audit.write_bytes(b"this is no database, but somebody's evidence " * 100)


def damage_by_cutting(audit: Path) -> None:
    journal, _ = Journal.open(str(audit), "audit", SystemClock(), RandomIds())
    journal.close()
    with contextlib.closing(sqlite3.connect(audit)) as connection:
        connection.execute("CREATE TABLE filler (text TEXT)")
        connection.execute("INSERT INTO filler VALUES (?)", ("x" * 100_000,))
        connection.commit()
    os.truncate(audit, audit.stat().st_size // 2)


@pytest.mark.parametrize("damage", [damage_with_garbage, damage_by_cutting])
def test_damaged_state_is_moved_aside_and_said(box: Sandbox, damage: object) -> None:
    assert callable(damage)
    Path(box.home.root).mkdir(mode=0o700)
    audit, limits = Path(box.home.audit_db), Path(box.home.limits_db)
    damage(audit)
    damaged = audit.read_bytes()
    limits.write_bytes(b"no database either " * 100)
    assert box.run("up").returncode == 0
    (kept,) = Path(box.home.root).glob("audit.db.corrupt-*")
    assert kept.read_bytes() == damaged
    assert len(list(Path(box.home.root).glob("limits.db.corrupt-*"))) == 1
    assert any(str(kept) in notice for notice in box.status()["notices"])
    assert f"! {kept}: the damaged file was moved here" in box.run("status").stdout
    doctor = box.run("doctor")
    assert doctor.returncode == 0
    assert f"{kept} was damaged and moved aside" in doctor.stdout
    box.run("down")
    with contextlib.closing(sqlite3.connect(audit)) as connection:
        kind, body = connection.execute(
            "SELECT kind, body FROM ledger_audit ORDER BY seq LIMIT 1"
        ).fetchone()
    assert kind == "restarted"
    assert json.loads(body)["moved"] == str(kept)


# A tool declared wrongly.

UNGATED = """
import os, sys
from cortex.daemon.main import run_daemon
from cortex.edge.bridge import main
from cortex.gateway.spec import Params, Policy, Result
from cortex.home import Home

async def handler(params, call):
    \"\"\"Do anything.\"\"\"

def register(registry):
    registry.add("any.thing", handler, toolset="any", params=Params, result=Result,
                 policy=Policy(gates=frozenset()))

if sys.argv[1] == "bridge":
    sys.exit(main([], command=[sys.executable, sys.argv[0], "daemon"]))
home = Home.from_environ(os.environ)
sys.exit(run_daemon(home, None, os.environ, extensions=[register]))
"""


def test_tool_without_a_gate_stops_the_daemon_with_one_line(box: Sandbox) -> None:
    script = box.root / "ungated.py"
    script.write_text(UNGATED)
    bridge = box.start([sys.executable, str(script), "bridge"], stderr=subprocess.PIPE)
    assert bridge.wait(PATIENCE_S) == 1
    assert said_by(bridge) == "cortex mcp: tool 'any.thing' needs at least one gate\n"
    assert box.daemon_pid() is None


# Where a person stands.


def test_commands_work_in_a_folder_that_was_removed(box: Sandbox) -> None:
    gone = box.root / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    for command, code in ((["status"], 1), (["call", "system.status"], 0)):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            ["sh", "-c", script, "sh", gone, *CORTEX, *command],
            env=box.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr


def test_daemon_killed_while_it_starts_leaves_a_home_that_starts(box: Sandbox) -> None:
    process = box.start(PROBE)
    eventually(lambda: Path(box.home.lock).exists(), "the lock")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert box.run("up").returncode == 0
