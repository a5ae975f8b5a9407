"""Where the daemon listens; with `use_port`, as on a system without unix sockets."""

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from cortex.edge.launch import connect, prepare
from cortex.edge.listen import listen, peer_uid
from cortex.errors import HomeError
from cortex.home import Home
from harness import ROOT, Sandbox, eventually, sandbox

# The daemon with the probe tools, on a port.
ON_A_PORT = """
import functools, os, sys
from pathlib import Path
import cortex.daemon.main as daemon
from cortex.edge.listen import listen
from cortex.home import Home
from probe import register_into
daemon.listen = functools.partial(listen, use_port=True)
home = Home.from_environ(os.environ)
sys.exit(daemon.run_daemon(home, None, os.environ, extensions=[register_into(Path(home.root))]))
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """A home whose daemon listens on a port."""
    for box in sandbox():
        start_on_a_port(box)
        yield box


def start_on_a_port(box: Sandbox) -> None:
    box.environ["PYTHONPATH"] = str(ROOT / "tests")
    process = box.start([sys.executable, "-c", ON_A_PORT])
    eventually(lambda: Path(box.home.port_file).exists() or process.poll() is not None, "a daemon")
    assert process.poll() is None, box.log()


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(str(tmp_path_factory.mktemp("h")))
    prepare(home)
    return home


def say_hello(home: Home, **hello: Any) -> dict[str, Any]:
    """Connect to the port, say hello and return the first line of the answer."""
    port = int(Path(home.port_file).read_text().split()[0])
    with socket.create_connection(("127.0.0.1", port)) as channel, channel.makefile() as lines:
        channel.sendall(json.dumps({"cortex": {"protocol": 1, **hello}}).encode() + b"\n")
        return cast("dict[str, Any]", json.loads(lines.readline()))


def test_port_and_secret_are_in_a_file_of_the_owner_only(box: Sandbox) -> None:
    file = Path(box.home.port_file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    port, secret = file.read_text().split()
    assert int(port) > 0
    assert len(secret) >= 32
    assert not Path(box.home.socket).exists()


def test_session_is_served_through_the_bridge(box: Sandbox) -> None:
    with box.client() as client:
        assert client.handshake()["result"]["serverInfo"]["name"] == "cortex"
        answer = client.call("probe.echo", text="by port")
        assert answer["result"]["structuredContent"] == {"text": "by port", "pid": box.daemon_pid()}
        assert [s["transport"] for s in box.status()["sessions"]] == ["stdio"]
        assert box.status()["sessions"][0]["principal"] == f"uid:{os.getuid()}"


@pytest.mark.parametrize("role", ["session", "cli", "control"])
def test_wrong_or_missing_secret_is_refused(box: Sandbox, role: str) -> None:
    secret = Path(box.home.port_file).read_text().split()[1]
    assert "error" not in say_hello(box.home, secret=secret)["cortex"]
    for wrong in ({}, {"secret": ""}, {"secret": secret[:-1]}, {"secret": "é"}):
        error = say_hello(box.home, role=role, **wrong)["cortex"]["error"]
        assert error["code"] == "conflict"
        assert secret not in error["message"]


def test_daemon_on_a_port_is_reached_from_this_machine_only(box: Sandbox) -> None:
    reached = connect(box.home)
    assert reached is not None
    with socket.socket(fileno=reached[0].detach()) as channel:
        assert channel.getpeername()[0] == "127.0.0.1"
        assert peer_uid(channel) is None


@pytest.mark.anyio
async def test_port_file_is_gone_when_the_endpoint_is_forgotten(home: Home) -> None:
    Path(f"{home.port_file}.new").touch(mode=0o644)  # of a daemon killed while it wrote
    endpoint = await listen(home, use_port=True)
    assert stat.S_IMODE(Path(home.port_file).stat().st_mode) == 0o600
    assert not Path(f"{home.port_file}.new").exists()
    endpoint.forget()
    await endpoint.listener.aclose()
    assert connect(home) is None
    endpoint.forget()


@pytest.mark.anyio
async def test_socket_takes_the_place_of_what_dead_daemons_left(home: Home) -> None:
    Path(home.socket).touch()
    Path(home.port_file).write_text("1 stale\n")
    endpoint = await listen(home)
    assert stat.S_IMODE(Path(home.socket).stat().st_mode) == 0o600
    assert not Path(home.port_file).exists()
    reached = connect(home)
    assert reached is not None
    with socket.socket(fileno=reached[0].detach()) as channel:
        assert peer_uid(channel) == os.getuid()
    await endpoint.listener.aclose()
    endpoint.forget()
    assert connect(home) is None


@pytest.mark.anyio
async def test_socket_path_that_is_too_long_is_an_error_of_the_home() -> None:
    with pytest.raises(HomeError, match="too long") as caught:
        await listen(Home("/tmp/" + "x" * 120))
    assert caught.value.hint == "set CORTEX_HOME to a shorter folder"


def test_port_of_a_killed_daemon_does_not_keep_the_next_from_starting(box: Sandbox) -> None:
    """Last in this file: it ends the daemon that the others use."""
    first = box.daemon_pid()
    box.kill_daemon()
    assert Path(box.home.port_file).exists()
    up = box.run("up")
    assert up.returncode == 0, up.stderr
    assert box.daemon_pid() not in {None, first}
    assert not Path(box.home.port_file).exists()
