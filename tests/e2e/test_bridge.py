"""The bridge between one agent and the daemon: real processes, killed for real."""

import signal
from pathlib import Path

import pytest

from harness import PATIENCE_S, PROBE_BRIDGE, Sandbox, eventually

pytestmark = pytest.mark.e2e


def test_bridge_starts_the_daemon_and_answers(box: Sandbox) -> None:
    with box.client() as client:
        assert client.handshake()["result"]["serverInfo"]["name"] == "cortex"
        assert client.request("ping")["result"] == {}
        assert box.daemon_pid() is not None


def test_racing_bridges_start_one_daemon(box: Sandbox) -> None:
    clients = [box.client() for _ in range(8)]
    for client in clients:
        client.handshake()
    answers = [client.call("probe.echo", text="who") for client in clients]
    assert {a["result"]["structuredContent"]["pid"] for a in answers} == {box.daemon_pid()}
    assert box.log().count("ready:") == 1


def test_two_hundred_bridges_at_once_are_served_by_one_daemon(box: Sandbox) -> None:
    clients = [box.client() for _ in range(200)]
    for client in clients:
        client.send(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "crowd", "version": "1"},
            },
        )
    for client in clients:
        assert client.receive()["result"]["serverInfo"]["name"] == "cortex"
    assert box.log().count("ready:") == 1


def test_read_only_call_survives_sigkill_of_the_daemon(box: Sandbox) -> None:
    box.start_daemon()
    with box.client() as client:
        client.handshake()
        pending = client.send_call("probe.echo", text="slow", wait_s=1)
        eventually(lambda: box.runs() == ["echo slow"], "the call to run")
        first = box.daemon_pid()
        box.kill_daemon()
        answer = client.answer_to(pending)
        assert answer["result"]["structuredContent"]["text"] == "slow"
        assert answer["result"]["structuredContent"]["pid"] != first
        assert box.runs() == ["echo slow", "echo slow"]
        # The new daemon knows this session: it was introduced again.
        assert client.call("probe.echo", text="after")["result"]["isError"] is False


def test_mutating_call_is_answered_with_an_error_and_not_repeated(box: Sandbox) -> None:
    box.start_daemon()
    with box.client(environ={"CORTEX_MCP_ALLOW_MUTATIONS": "true"}) as client:
        client.handshake()
        pending = client.send_call("probe.write", text="once", wait_s=30)
        eventually(lambda: box.runs() == ["write once"], "the call to run")
        box.kill_daemon()
        error = client.answer_to(pending)["error"]
        assert error["code"] == -32603
        assert error["data"]["error"]["code"] == "unavailable"
        assert client.call("probe.echo", text="alive")["result"]["isError"] is False
    assert box.runs() == ["write once", "echo alive"]


def test_every_request_is_answered_once_and_in_order_across_many_kills(box: Sandbox) -> None:
    box.start_daemon()
    client = box.client()
    client.handshake()
    ids: list[int] = []
    for _ in range(4):
        ids += [client.send_call("probe.echo", text=str(i), wait_s=0.05) for i in range(10)]
        box.kill_daemon()
    last = client.send_call("probe.echo", text="last")
    seen: list[int] = []
    while last not in seen:
        message = client.receive()
        assert "result" in message, message
        seen.append(message["id"])
    rest = [message["id"] for message in client.receive_all()]
    assert sorted(seen + rest) == sorted([*ids, last])


def test_modern_session_survives_sigkill_without_a_handshake(box: Sandbox) -> None:
    """2026-07-28: no handshake exists; each request carries its own envelope."""
    box.start_daemon()
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with box.client() as client:
        assert (
            "2026-07-28"
            in client.request("server/discover", {"_meta": meta})["result"]["supportedVersions"]
        )
        arguments = {"text": "slow", "wait_s": 1}
        pending = client.send(
            "tools/call", {"name": "probe.echo", "arguments": arguments, "_meta": meta}
        )
        eventually(lambda: box.runs() == ["echo slow"], "the call to run")
        box.kill_daemon()
        assert client.answer_to(pending)["result"]["structuredContent"]["text"] == "slow"


def test_idle_bridge_leaves_a_stopped_daemon_alone_until_it_is_needed(box: Sandbox) -> None:
    with box.client() as client:
        client.handshake()
        assert box.run("down").returncode == 0
        assert box.daemon_pid() is None
        assert client.call("probe.echo", text="again")["result"]["isError"] is False
        assert box.daemon_pid() is not None


def test_bridge_ends_with_stdin_and_the_daemon_forgets_the_session(box: Sandbox) -> None:
    box.start_daemon()
    client = box.client()
    client.handshake()
    status = box.run("status", "--json").stdout
    assert '"transport": "stdio"' in status
    with client:
        pass
    assert client.process.returncode == 0
    eventually(lambda: '"sessions": []' in box.run("status", "--json").stdout, "forgetting")


def test_what_was_asked_before_stdin_ended_is_still_answered(box: Sandbox) -> None:
    box.start_daemon()
    client = box.client()
    client.send(
        "initialize",
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "pipe", "version": "1"},
        },
    )
    client.notify("notifications/initialized")
    client.send_call("probe.echo", text="piped")
    assert [m["id"] for m in client.receive_all()] == [1, 2]


@pytest.mark.parametrize("size_bytes", [3_000_000, 7_000_000])
def test_messages_of_several_megabytes_pass_both_ways(box: Sandbox, size_bytes: int) -> None:
    box.start_daemon()
    with box.client() as client:
        client.handshake()
        grown = client.call("probe.grow", size_bytes=size_bytes // 2)
        assert len(grown["result"]["structuredContent"]["text"]) == size_bytes // 2
        echoed = client.call("probe.roomy", text="y" * (size_bytes // 2))
        assert len(echoed["result"]["structuredContent"]["text"]) == size_bytes // 2


def test_rubbish_is_skipped_and_the_session_goes_on(box: Sandbox) -> None:
    with box.client() as client:
        client.handshake()
        for rubbish in (
            b"not json\n",
            b'{"jsonrpc": "2.0", "id": 7, "method"\n',
            b"\xff\xfe\xfa\n",
            b"[" * 100_000 + b"]" * 100_000 + b"\n",
            b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}\n',
            b"42\n",
            b"\n",
        ):
            client.send_bytes(rubbish)
        assert client.request("ping")["result"] == {}


def test_ten_megabytes_on_one_line_get_an_error_that_says_the_limit(box: Sandbox) -> None:
    with box.client() as client:
        client.handshake()
        error = client.call("probe.echo", text="z" * 10_000_000)["error"]
        assert error["data"]["error"]["code"] == "size_limit_exceeded"
        assert error["data"]["error"]["details"]["maxBytes"] == 1024 * 1024
        assert client.request("ping")["result"] == {}


def test_a_line_too_long_to_read_is_refused_by_its_id(box: Sandbox) -> None:
    with box.client() as client:
        client.handshake()
        error = client.call("probe.echo", text="z" * 20_000_000)["error"]
        assert error["code"] == -32602
        assert error["data"]["error"]["code"] == "size_limit_exceeded"
        assert client.request("ping")["result"] == {}


def test_half_a_message_before_the_end_of_input_is_dropped_and_said(box: Sandbox) -> None:
    log = box.root / "stderr"
    with log.open("wb") as stderr:
        client = box.client(stderr=stderr)
        client.handshake()
        client.send_bytes(b'{"jsonrpc": "2.0", "id": 9, "meth')
        assert client.receive_all() == []
    assert client.process.returncode == 0
    assert "ended inside a message" in log.read_text()


def test_unknown_method_is_refused_and_notifications_are_not_answered(box: Sandbox) -> None:
    with box.client() as client:
        client.handshake()
        client.notify("notifications/nothing")
        assert client.request("no/such")["error"]["code"] == -32601


def test_unknown_toolset_ends_the_bridge_with_one_line(box: Sandbox) -> None:
    log = box.root / "stderr"
    with log.open("wb") as stderr:
        bridge = box.start([*PROBE_BRIDGE, "--toolsets", "nope"], stderr=stderr)
        assert bridge.wait(PATIENCE_S) == 1
    known = "code, conversations, memory, operations, probe"
    assert log.read_text() == f"cortex mcp: Unknown toolset: nope (there is {known})\n"


def test_client_that_closes_its_end_ends_the_bridge(box: Sandbox) -> None:
    box.start_daemon()
    client = box.client()
    client.handshake()
    client.process.stdout.close()  # pyright: ignore[reportOptionalMemberAccess]
    client.send("ping")
    assert client.process.wait(10) == 0


def test_bridge_dies_quietly_of_a_signal(box: Sandbox) -> None:
    client = box.client()
    client.handshake()
    client.process.send_signal(signal.SIGINT)
    assert client.process.wait(10) == 130


def test_stale_socket_and_lock_files_mean_nothing(box: Sandbox) -> None:
    run = Path(box.home.run)
    run.mkdir(parents=True, mode=0o700)
    Path(box.home.lock).write_text("999999\n")
    Path(box.home.pid).write_text("999999\n")
    Path(box.home.socket).touch()
    with box.client() as client:
        assert "result" in client.handshake()
