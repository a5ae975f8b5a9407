"""The command line as a person uses it: text, JSON, and exit codes 0, 1 and 2."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from logging import LogRecord
from pathlib import Path
from typing import Any

import pytest

from cortex.daemon.logs import PrivateRotatingFile
from harness import CORTEX, PATIENCE_S, ROOT, Sandbox, eventually, sandbox

pytestmark = pytest.mark.e2e

SCRIPTS = ["cortex", "check", "scripts/find-python", "scripts/lock", ".ci/run"]


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """A home with a daemon, with the probe tools, that no test harms."""
    for box in sandbox():
        box.configure("[mcp]\nmax_results = 7\n")
        box.start_daemon()
        yield box


def json_of(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


# up, down, status.


def test_up_down_and_status_tell_what_is_so(box: Sandbox) -> None:
    home = str(box.home)
    assert (box.run("status").returncode, box.run("status", "--json").returncode) == (1, 1)
    assert json_of(box.run("status", "--json")) == {"running": False, "home": home}
    assert "`cortex up` starts it" in box.run("status").stdout
    assert not Path(home).exists()
    up = box.run("up")
    assert (up.returncode, up.stderr) == (0, "")
    assert up.stdout == f"cortex is up: pid {box.daemon_pid()}, home {home}\n"
    again = box.run("up")
    assert again.stdout == f"cortex is already up: pid {box.daemon_pid()}, home {home}\n"
    down = box.run("down")
    assert (down.returncode, down.stdout) == (0, "cortex is down\n")
    assert box.daemon_pid() is None
    down = box.run("down")
    assert (down.returncode, down.stdout) == (0, "cortex is not running\n")


def test_up_with_another_configuration_than_the_running_one_is_refused(shared: Sandbox) -> None:
    other = shared.root / "other.toml"
    other.write_text("")
    up = shared.run("up", "--config", str(other))
    assert up.returncode == 1
    assert f"not with {other}" in up.stderr
    assert "cortex down" in up.stderr
    linked = shared.root / "linked.toml"
    linked.symlink_to(other)
    assert f"not with {linked}" in shared.run("up", "--config", str(linked)).stderr
    same = f"{shared.home.root}/../home/cortex.toml"
    assert shared.run("up", "--config", same).returncode == 0


def test_status_is_text_for_people_and_json_when_asked(shared: Sandbox) -> None:
    status = json_of(shared.run("status", "--json"))
    assert status["running"] is True
    assert status["pid"] == shared.daemon_pid()
    assert status["config"] == f"{shared.home}/cortex.toml"
    text = shared.run("status").stdout
    assert f"pid {shared.daemon_pid()}" in text
    assert re.search(r"^audit +daemon +running +0$", text, re.MULTILINE)
    assert "no sessions are open" in text


# tools, call.


def test_tools_lists_gates_and_limits(shared: Sandbox) -> None:
    tools = {tool["name"]: tool for tool in json_of(shared.run("tools", "--json"))["tools"]}
    assert tools["probe.write"]["gates"] == ["system.mutate"]
    assert tools["probe.write"]["mutates"] is True
    assert tools["system.status"]["rateLimit"] == {"calls": 50, "windowSeconds": 10}
    lines = shared.run("tools").stdout.splitlines()
    assert lines[0].split() == ["TOOL", "GATES", "CHANGES", "LIMIT", "TIMEOUT", "CACHE"]
    assert [line.split()[0] for line in lines[1:]] == sorted(tools)


def test_call_prints_the_result_as_json_or_its_text(shared: Sandbox) -> None:
    arguments = '{"text": "hé\\n"}'
    result = shared.run("call", "probe.echo", arguments)
    assert result.returncode == 0
    assert json_of(result)["structuredContent"]["text"] == "hé\n"
    text = shared.run("call", "--text", "probe.echo", arguments)
    assert text.returncode == 0
    assert json.loads(text.stdout)["text"] == "hé\n"


def test_call_exits_with_1_for_an_error_of_the_tool(shared: Sandbox) -> None:
    failed = shared.run("call", "probe.fail")
    assert (failed.returncode, failed.stderr) == (1, "")
    assert json_of(failed)["structuredContent"]["error"]["code"] == "internal_error"
    unknown = shared.run("call", "no.such")
    assert unknown.returncode == 1
    assert json_of(unknown)["error"]["data"]["error"]["code"] == "not_found"
    refused = shared.run("call", "--text", "probe.write")
    assert refused.returncode == 1
    assert "not allowed" in refused.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["call", "probe.echo", "{"], "not JSON"),
        (["call", "probe.echo", "[" * 100_000], "not JSON"),
        (["call", "probe.echo", "[1]"], "are a JSON object"),
        (["call"], "Missing argument 'TOOL'"),
        (["run", "nothing"], "'nothing' is not one of"),
        (["nothing"], "No such command 'nothing'"),
        (["up", "--nothing"], "No such option"),
        (["mcp", "--nothing"], "unknown argument --nothing"),
        (["mcp", "--toolsets"], "--toolsets needs a value"),
    ],
)
def test_bad_usage_exits_with_2(shared: Sandbox, arguments: list[str], said: str) -> None:
    done = shared.run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_call_of_a_daemon_that_dies_says_so(box: Sandbox) -> None:
    daemon = box.start_daemon()
    call = box.start(
        [*CORTEX, "call", "probe.echo", '{"wait_s": 25, "text": "x"}'], stderr=subprocess.PIPE
    )
    eventually(lambda: box.runs() == ["echo x"], "the call to run")
    daemon.kill()
    assert call.wait(PATIENCE_S) == 1
    assert call.stderr is not None
    assert call.stderr.read() == (b"cortex: the daemon ended the connection (see `cortex logs`)\n")


# run.


def test_run_daemon_and_run_mcp_are_the_daemon_and_the_bridge(box: Sandbox) -> None:
    daemon = box.start([*CORTEX, "run", "daemon"])
    eventually(lambda: box.daemon_pid() == daemon.pid, "the daemon")
    with box.client([*CORTEX, "run", "mcp", "--toolsets", "operations"]) as client:
        assert client.handshake()["result"]["serverInfo"]["name"] == "cortex"
        assert box.daemon_pid() == daemon.pid
    daemon.terminate()
    assert daemon.wait(PATIENCE_S) == 0


def test_both_names_are_installed() -> None:
    for name in ("cortex", "cortexctl"):
        program = Path(sys.executable).with_name(name)
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        assert version.stdout.startswith("cortex, version ")


# logs.


def test_logs_prints_the_end_of_a_log(shared: Sandbox) -> None:
    assert "ready:" in shared.run("logs").stdout
    assert shared.run("logs", "-n", "0").stdout == ""
    missing = shared.run("logs", "stderr")  # this daemon was started by hand
    assert missing.returncode == 1
    assert "there is no log yet" in missing.stderr
    unknown = shared.run("logs", "nothing")
    assert unknown.returncode == 2
    assert "is not one of 'daemon', 'stderr'" in unknown.stderr


def test_logs_follows_a_log_through_its_rotations(box: Sandbox) -> None:
    """Every line, once, in order: also those written just before a file is put aside."""
    Path(box.home.logs).mkdir(parents=True)
    log = PrivateRotatingFile(box.home.log_file, maxBytes=2000, backupCount=40)
    say(log, "first")
    follower = box.start([*CORTEX, "logs", "-f"])
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"first\n"
    for number in range(3000):
        say(log, f"line {number} {'.' * 10}")
    log.close()
    for number in range(3000):
        assert follower.stdout.readline().startswith(b"line %d " % number)


def test_logs_follows_a_log_that_begins_anew(box: Sandbox) -> None:
    """The stderr of the daemon is emptied at each start."""
    Path(box.home.logs).mkdir(parents=True)
    Path(box.home.crash_file).write_text("a long line of the last daemon\n")
    follower = box.start([*CORTEX, "logs", "stderr", "-f"])
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"a long line of the last daemon\n"
    Path(box.home.crash_file).write_text("short\n")
    assert follower.stdout.readline() == b"short\n"


def say(log: PrivateRotatingFile, text: str) -> None:
    log.emit(LogRecord("test", 20, "", 0, text, None, None))


# doctor.


def test_doctor_is_content_with_a_daemon_that_is_well(shared: Sandbox) -> None:
    doctor = shared.run("doctor", "--json")
    assert doctor.returncode == 0
    levels = {finding["check"]: finding["level"] for finding in json_of(doctor)["findings"]}
    assert set(levels.values()) == {"ok"}
    assert {"python", "home", "disk", "config", "daemon", "store", "job audit", "audit"} <= set(
        levels
    )
    lines = shared.run("doctor").stdout.splitlines()
    assert all(line.startswith("✓ ") for line in lines)


def test_doctor_exits_with_1_where_something_is_wrong(box: Sandbox) -> None:
    box.configure("[mcp]\nnope = 1\n")
    doctor = box.run("doctor")
    assert doctor.returncode == 1
    assert "✗ config: " in doctor.stdout
    assert "unknown key mcp.nope" in doctor.stdout
    assert "! daemon: the daemon is not running; cortex up" in doctor.stdout


# config show.


def test_config_show_masks_secrets_and_lists_what_only_moraine_uses(box: Sandbox) -> None:
    config = box.root / "moraine.toml"
    config.write_text(
        "[clickhouse]\nurl = 'http://me:hunter2@store:8123'\npassword = 'hunter3'\n"
        "[mcp]\nmax_results = 9\nprotocol_version = '2024-11-05'\n"
        "[monitor]\nport = 8080\n"
    )
    for arguments in ([], ["--json"]):
        shown = box.run(
            "config", "show", "--config", str(config), *arguments,
            environ={"CORTEX_BM25__K1": "1.5"},
        )  # fmt: skip
        assert shown.returncode == 0
        assert "hunter" not in shown.stdout
        assert "monitor.port" in shown.stdout
        assert "mcp.protocol_version" in shown.stdout
    answer = json_of(shown)
    rows = {row["key"]: row for row in answer["settings"]}
    assert rows["mcp.max_results"]["value"] == "9"
    assert rows["mcp.max_results"]["origin"] == f"file {config}"
    assert rows["bm25.k1"]["origin"] == "env CORTEX_BM25__K1"
    assert rows["limits.calls"]["origin"] == "default"
    assert answer["ignored"] == ["mcp.protocol_version", "monitor.port"]
    assert not Path(box.home.root).exists()


def test_config_show_of_a_wrong_file_exits_with_2(box: Sandbox) -> None:
    box.configure("[http]\nport = 'x'\n")
    shown = box.run("config", "show")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.count("\n") == 1


# The scripts at the root.


@pytest.mark.parametrize("shell", ["sh", "dash"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_posix_shell(shell: str, script: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    text = (ROOT / script).read_text()
    assert "bash" not in text.partition("\n")[0]
    subprocess.run([shell, "-n", ROOT / script], check=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose environment is the one that runs this test."""
    folder = tmp_path / "a checkout"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / "src").symlink_to(ROOT / "src")
    for name in ("cortex", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    stamp = folder / ".venv" / ".ready-run"
    stamp.touch()
    later = (folder / "pyproject.toml").stat().st_mtime + 10
    os.utime(stamp, (later, later))
    return folder


def output(command: list[str], cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_cortex_script_works_from_anywhere_and_through_links(checkout: Path) -> None:
    links = checkout.parent / "bin"
    links.mkdir()
    (links / "absolute").symlink_to(checkout / "cortex")
    (links / "relative").symlink_to(Path("..") / "a checkout" / "cortex")
    (links / "twice").symlink_to("relative")
    elsewhere = checkout.parent / "elsewhere"
    elsewhere.mkdir()
    for program in (checkout / "cortex", *links.iterdir()):
        assert output([str(program), "--version"], elsewhere).startswith("cortex, version")
    path = f"{checkout}:{os.environ['PATH']}"
    said = output(["sh", "-c", "cortex --version"], elsewhere, PATH=path)
    assert said.startswith("cortex, version")
    assert output(["./cortex", "--version"], checkout).startswith("cortex, version")


def test_cortex_script_helps_with_mcp(checkout: Path) -> None:
    assert "--toolsets" in output([str(checkout / "cortex"), "mcp", "--help"], checkout)


def test_cortex_script_does_not_run_what_lies_in_the_working_directory(checkout: Path) -> None:
    trap = checkout.parent / "trap"
    trap.mkdir()
    (trap / "cortex.py").write_text("print('caught')")
    assert output([str(checkout / "cortex"), "--version"], trap).startswith("cortex, version")
