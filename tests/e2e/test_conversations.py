"""From a session file that an agent writes to an answer another agent gets: the real daemon."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness import CORTEX, Client, Sandbox, eventually

pytestmark = pytest.mark.e2e

BRIDGE = [*CORTEX, "mcp"]


class Agent:
    """Writes a Claude Code session, line by line, where Claude Code does."""

    def __init__(self, box: Sandbox, session_id: str) -> None:
        folder = box.root / ".claude" / "projects" / "-work-demo"
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"{session_id}.jsonl"
        self._session_id = session_id
        self._lines = 0

    def says(self, text: str, role: str = "user") -> None:
        self._lines += 1
        content: Any = text if role == "user" else [{"type": "text", "text": text}]
        record = {
            "type": role,
            "uuid": f"{self._session_id}-{self._lines}",
            "sessionId": self._session_id,
            "cwd": "/home/ada/demo",
            "timestamp": f"2026-02-01T10:{self._lines // 60:02d}:{self._lines % 60:02d}.000Z",
            "message": {"role": role, "content": content},
        }
        with self.file.open("a") as file:
            file.write(json.dumps(record) + "\n")


def name_of(number: int) -> str:
    """Return a word that is nowhere else, and has no parts."""
    return "zq" + "".join("abcdefghij"[int(digit)] for digit in f"{number:03d}")


def hits(client: Client, query: str, **more: Any) -> list[dict[str, Any]]:
    result = client.call("search", query=query, verbosity="full", **more)["result"]
    return result["structuredContent"]["hits"]


def test_what_an_agent_writes_is_found_while_it_writes(box: Sandbox) -> None:
    agent = Agent(box, "one")
    agent.says("Why does the walrus migration hang?")
    with box.client(BRIDGE) as client:
        client.handshake()
        eventually(lambda: len(hits(client, "walrus migration")) == 1, "the first line")
        agent.says("Because the walrus holds a table lock.", "assistant")
        eventually(lambda: len(hits(client, "walrus")) == 2, "the appended line")
        best = hits(client, "table lock")[0]
        opened = client.call("open", event_uid=best["event_uid"])["result"]
        text = opened["content"][0]["text"]
        assert "Why does the walrus migration hang?" in text
        assert "- [2] assistant message" in text
        assert "structuredContent" not in opened


def test_nothing_is_lost_or_double_when_the_daemon_is_killed_while_reading(box: Sandbox) -> None:
    agent = Agent(box, "two")
    with box.client(BRIDGE) as client:
        client.handshake()
        for number in range(40):
            agent.says(f"pelican {name_of(number)}")
            if number % 20 == 5:
                box.kill_daemon()
                assert client.request("ping")["result"] == {}
        # 25 is the most that is shown.
        eventually(lambda: len(hits(client, "pelican")) == 25, "all of it")
        eventually(lambda: len(hits(client, name_of(39))) == 1, "the last of it")
        for number in (0, 5, 6, 25, 39):
            assert len(hits(client, name_of(number))) == 1
        page = hits(client, "pelican", min_should_match=1, limit=25)
        assert len({hit["event_uid"] for hit in page}) == 25


def test_a_secret_is_gone_before_it_is_stored(box: Sandbox) -> None:
    agent = Agent(box, "three")
    secret = "ghp_" + "a1B2" * 9
    agent.says(f"my ostrich token is {secret}")
    with box.client(BRIDGE) as client:
        client.handshake()
        eventually(lambda: len(hits(client, "ostrich")) == 1, "the line")
        uid = hits(client, "ostrich")[0]["event_uid"]
        opened = client.call("open", event_uid=uid, verbosity="full")
        assert secret not in json.dumps(opened)
        assert "[REDACTED:" in json.dumps(opened)


def test_commands_read_search_and_open(box: Sandbox) -> None:
    box.configure("[ingest]\nsources = []\n")
    agent = Agent(box, "four")
    agent.says("The flamingo build fails on arm64")
    done = box.run("ingest", "--harness", "claude-code", str(agent.file.parent), "--json")
    assert json.loads(done.stdout)["events"] == 1, done.stderr
    again = box.run("ingest", "--harness", "claude-code", str(agent.file.parent), "--json")
    assert json.loads(again.stdout)["events"] == 0
    shown = box.run("search", "flamingo builds")
    assert "The flamingo build fails on arm64" in shown.stdout
    found = json.loads(box.run("search", "flamingo", "--json").stdout)
    uid = found["hits"][0]["event_uid"]
    assert "[1] user message" in box.run("open", uid).stdout
    missing = box.run("open", "0" * 32)
    assert (missing.returncode, missing.stdout) == (1, f"no event {'0' * 32}\n")
    empty = box.run("search", " ")
    assert empty.returncode == 1
    assert "query cannot be empty" in empty.stderr


def test_a_folder_that_no_agent_wrote_is_refused(box: Sandbox) -> None:
    box.configure("[ingest]\nsources = []\n")
    folder = box.root / "elsewhere"
    folder.mkdir()
    (folder / "x.jsonl").write_text("{}\n")
    done = box.run("ingest", str(folder))
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert Path(box.home.root).exists()
