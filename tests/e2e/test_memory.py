"""Memory through the real daemon: killed in the middle, asked by two clients, reviewed by hand."""

import json
import os
import pty
import re
import select
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import CORTEX, PATIENCE_S, Client, Sandbox, eventually

pytestmark = pytest.mark.e2e

ALLOWED = {"CORTEX_MCP_ALLOW_MUTATIONS": "true"}
QUIET = "[ingest]\nsources = []\n[limits]\ncalls = 1000000\n"


def answer(response: Mapping[str, Any]) -> dict[str, Any]:
    assert "error" not in response, response
    return response["result"]["structuredContent"]


def typed(box: Sandbox, arguments: list[str], keys: str = "") -> str:
    """Run a command at a terminal, type keys, and return what it showed."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        [*CORTEX, *arguments], env=box.environ, stdin=there, stdout=there, stderr=there
    )
    os.close(there)
    os.write(here, keys.encode())
    shown = b""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if select.select([here], [], [], 0.1)[0]:
            try:
                shown += os.read(here, 65536)
            except OSError:  # the other end is closed
                break
        elif process.poll() is not None:
            break
    process.wait(PATIENCE_S)
    os.close(here)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


@pytest.mark.timeout(300)
def test_every_acknowledged_note_survives_a_kill_among_a_thousand(box: Sandbox) -> None:
    box.configure(QUIET)
    box.start_daemon()
    acknowledged: list[str] = []
    enough = threading.Event()

    def write(client: Client, name: str) -> None:
        sent = {
            client.send_call("cortex_memory_note", claim=f"{name} learnt fact {n} of the journey")
            for n in range(250)
        }
        while sent:
            message = client.receive()
            sent.discard(message.get("id", 0))
            if "result" in message and not message["result"].get("isError"):
                acknowledged.append(message["result"]["structuredContent"]["id"])
            if len(acknowledged) > 150:
                enough.set()

    clients = [box.client(environ=ALLOWED) for _ in range(4)]
    for client in clients:
        client.handshake()
    writers = [
        threading.Thread(target=write, args=(client, name), daemon=True)
        for client, name in zip(clients, ("ada", "bob", "cleo", "dan"), strict=True)
    ]
    for writer in writers:
        writer.start()
    assert enough.wait(4 * PATIENCE_S)
    box.kill_daemon()
    for writer in writers:
        writer.join(4 * PATIENCE_S)
        assert not writer.is_alive()
    kept = set(acknowledged)
    assert len(kept) == len(acknowledged)
    assert 150 < len(kept) < 1000
    proof = json.loads(box.run("memory", "verify", "--json").stdout)
    assert proof["ok"], proof
    assert proof["memories"] >= len(kept)
    for memory_id in list(kept)[:: max(1, len(kept) // 20)]:
        assert box.run("memory", "show", memory_id).returncode == 0
    listed: set[str] = set()
    while len(listed) < proof["memories"]:
        offset = str(len(listed))
        page = box.run("memory", "list", "--limit", "100", "--offset", offset, "--json")
        listed |= {memory["id"] for memory in json.loads(page.stdout)["memories"]}
    assert kept <= listed


def test_a_person_answers_in_the_client(box: Sandbox) -> None:
    """MCP elicitation: the daemon asks through the bridge, the client's person says yes."""
    box.configure(QUIET)
    box.start_daemon()
    with box.client(environ=ALLOWED) as client:
        info = {"name": "test", "version": "1"}
        capabilities = {"elicitation": {}}
        client.request(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": info},
        )
        client.notify("notifications/initialized")
        note = answer(client.call("cortex_memory_note", claim="The build uses pnpm"))
        wanted = client.send_call("cortex_memory_accept", id=note["id"])
        question = client.receive()
        assert question["method"] == "elicitation/create"
        assert "The build uses pnpm" in question["params"]["message"]
        said = {"action": "accept", "content": {"approve": True}}
        client.send_message({"jsonrpc": "2.0", "id": question["id"], "result": said})
        assert answer(client.answer_to(wanted))["trust"] == "reviewed"


def test_a_code_from_a_terminal_lets_an_agent_accept_once(box: Sandbox) -> None:
    box.configure(QUIET)
    box.start_daemon()
    with box.client(environ=ALLOWED) as client:
        client.handshake()
        note = answer(client.call("cortex_memory_note", claim="The build uses pnpm"))
        refused = client.call("cortex_memory_accept", id=note["id"])
        assert refused["error"]["data"]["error"]["code"] == "forbidden"
        assert box.run("memory", "approve", note["id"]).returncode == 1  # no terminal, no code
        shown = typed(box, ["memory", "approve", note["id"]])
        (code,) = re.findall(r"\b[A-Z2-9]{5}-[A-Z2-9]{5}\b", shown)
        done = client.call("cortex_memory_accept", id=note["id"], code=code)
        assert answer(done)["trust"] == "reviewed"
        again = client.call("cortex_memory_accept", id=note["id"], code=code)
        assert again["error"]["data"]["error"]["code"] == "forbidden"


def test_review_at_a_terminal_shows_and_decides(box: Sandbox) -> None:
    box.configure(QUIET)
    box.start_daemon()
    with box.client(environ=ALLOWED) as client:
        client.handshake()
        events = [
            {"id": "u1", "role": "user", "text": "From now on use tabs in Makefiles"},
            {"id": "u2", "role": "user", "text": "Please never force push to main"},
        ]
        closed = answer(client.call("cortex_session_close", events=events))
        answer(client.call("cortex_session_commit", ids=list(closed["candidates"])))
    shown = typed(box, ["memory", "review"], "a\nr\nnot a rule here\n")
    assert "Makefiles" in shown
    assert "shown by" in shown
    page = json.loads(box.run("memory", "list", "--json").stdout)
    states = sorted((memory["status"], memory["trust"]) for memory in page["memories"])
    assert states == [("active", "reviewed"), ("rejected", "agent")]
    assert "nothing waits" in typed(box, ["memory", "review"])


def test_the_commands_of_memory_work_together(box: Sandbox, tmp_path: Path) -> None:
    box.configure(QUIET)
    box.start_daemon()
    kept = json.loads(box.run("memory", "note", "The build uses pnpm", "--json").stdout)
    assert (kept["trust"], kept["status"]) == ("agent", "active")  # nobody sat at a terminal
    shown = typed(box, ["memory", "note", "Tests run on Linux", "--tag", "tests"])
    assert "active, reviewed: kept" in shown
    found = json.loads(box.run("memory", "search", "what runs on Linux", "--json").stdout)
    (hit,) = found["hits"]
    assert hit["tags"] == ["tests"]
    assert hit["parts"]["words"] > 0
    assert "helpful 1" in box.run("memory", "outcome", hit["id"], "helpful").stdout
    assert "helpful in operator" in box.run("memory", "show", hit["id"]).stdout
    assert "2 seen, 0 would change" in box.run("memory", "decay", "--dry-run").stdout
    file = tmp_path / "memories.jsonl"
    assert box.run("memory", "export", str(file)).returncode == 0
    assert box.run("memory", "forget", hit["id"], "--yes").returncode == 0
    assert box.run("memory", "show", hit["id"]).returncode == 1
    assert "0 memories kept, 2 known already" in box.run("memory", "import", str(file)).stdout
    proof = box.run("memory", "verify")
    assert (proof.returncode, "1 memories: sound" in proof.stdout) == (0, True)


def test_a_damaged_ledger_is_said_and_the_exit_code_tells(box: Sandbox) -> None:
    import sqlite3

    box.configure(QUIET)
    process = box.start_daemon()
    box.run("memory", "note", "The build uses pnpm")
    process.terminate()
    eventually(lambda: process.poll() is not None, "the daemon's end")
    connection = sqlite3.connect(Path(box.home.root) / "state.db")
    connection.execute("UPDATE memories SET claim = 'The build uses npm'")
    connection.commit()
    connection.close()
    proof = box.run("memory", "verify")
    assert proof.returncode == 1
    assert "differs from record 2: claim" in proof.stdout
    assert box.run("memory", "verify", "--rebuild").returncode == 0


def test_reflection_reads_a_session_that_an_agent_wrote(box: Sandbox) -> None:
    folder = box.root / ".claude" / "projects" / "-work-demo"
    folder.mkdir(parents=True)
    record = {
        "type": "user",
        "uuid": "said-1",
        "sessionId": "one",
        "cwd": "/home/ada/demo",
        "timestamp": "2026-02-01T10:00:00.000Z",
        "message": {"role": "user", "content": "From now on use tabs in Makefiles."},
    }
    (folder / "one.jsonl").write_text(json.dumps(record) + "\n")
    box.configure("[limits]\ncalls = 1000000\n")
    box.start_daemon()
    box.run("ingest")
    with box.client(environ=ALLOWED) as client:
        client.handshake()
        reflected = answer(client.call("cortex_reflect", session="one"))
        (candidate,) = reflected["candidates"]
        assert candidate["rule"] == "preference"
        cited = [f"event:{uid}" for uid in candidate["events"]]
        note = answer(client.call("cortex_memory_note", claim=candidate["claim"], evidence=cited))
        whole = answer(client.call("cortex_memory_get", id=note["id"]))
        assert whole["evidence"] == cited  # looked up: not marked unchecked
