"""Session files of several agents that grow while somebody reads them, and what must be found."""

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import CORTEX, Client, Sandbox

Line = Callable[[str, int, str], dict[str, Any]]


def word(session_no: int, number: int) -> str:
    """Return a word that stands in one line of one session, and has no parts."""
    digits = f"{session_no:02d}{number:06d}"
    return "zq" + "".join("abcdefghij"[int(digit)] for digit in digits)


def _moment(number: int) -> str:
    return f"2026-02-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z"


def claude_line(session: str, number: int, text: str) -> dict[str, Any]:
    """One prompt or answer as Claude Code writes it."""
    role = "user" if number % 2 else "assistant"
    return {
        "type": role,
        "uuid": f"{session}-{number}",
        "sessionId": session,
        "cwd": "/w/loom",
        "timestamp": _moment(number),
        "message": {"role": role, "content": [{"type": "text", "text": text}]},
    }


def codex_line(session: str, number: int, text: str) -> dict[str, Any]:
    """The head of a session, then messages, as Codex writes them."""
    if number == 0:
        payload: dict[str, Any] = {"id": session, "cwd": "/w/loom", "cli_version": "0.9"}
        return {"timestamp": _moment(0), "type": "session_meta", "payload": payload}
    content = [{"type": "output_text", "text": text}]
    payload = {"type": "message", "role": "assistant", "content": content}
    return {"timestamp": _moment(number), "type": "response_item", "payload": payload}


def qwen_line(session: str, number: int, text: str) -> dict[str, Any]:
    """One prompt as Qwen Code writes it."""
    return {
        "uuid": f"{session}-{number}",
        "sessionId": session,
        "timestamp": _moment(number),
        "type": "user",
        "cwd": "/w/loom",
        "message": {"role": "user", "parts": [{"text": text}]},
    }


AGENTS: dict[str, tuple[str, Line]] = {
    "claude-code": (".claude/projects/-w-loom/{session}.jsonl", claude_line),
    "codex": (".codex/sessions/2026/02/01/rollout-2026-02-01T00-00-00-{session}.jsonl", codex_line),
    "qwen-code": (".qwen/projects/-w-loom/chats/{session}.jsonl", qwen_line),
}


@dataclass
class Growing:
    """One session file and how many lines were written to it."""

    path: Path
    session: str
    session_no: int
    line: Line
    lines: int = 0
    words: list[str] = field(default_factory=list[str])

    def grow(self) -> None:
        """Append a line, now and then in two pieces, as a slow agent does."""
        name = word(self.session_no, self.lines)
        record = self.line(self.session, self.lines, f"the pelican says {name} once")
        data = json.dumps(record).encode() + b"\n"
        cut = len(data) // 2 if self.lines % 7 == 3 else 0
        for piece in (data[:cut], data[cut:]):
            with self.path.open("ab") as file:
                file.write(piece)
        if name.encode() in data:
            self.words.append(name)
        self.lines += 1


def growing_files(root: Path, of_each: int) -> list[Growing]:
    """Return session files of several agents, in the places where these write them."""
    found: list[Growing] = []
    for place, line in AGENTS.values():
        for _ in range(of_each):
            number = len(found)
            session = f"0199aaaa-bbbb-7ccc-8ddd-eeeeffff{number:04d}"
            path = root / place.format(session=session)
            path.parent.mkdir(parents=True, exist_ok=True)
            found.append(Growing(path, session, number, line))
    return found


class Writer(threading.Thread):
    """Appends to files until it is told to stop."""

    def __init__(self, files: list[Growing], pause_s: float, stop: threading.Event) -> None:
        super().__init__()
        self._files, self._pause_s, self._stop_event = files, pause_s, stop

    def run(self) -> None:
        while not self._stop_event.wait(self._pause_s):
            for file in self._files:
                file.grow()


class Searcher(threading.Thread):
    """An agent that searches through `cortex mcp` and notes how long it waits."""

    def __init__(self, box: Sandbox, files: list[Growing], stop: threading.Event) -> None:
        super().__init__()
        self._client: Client = box.client([*CORTEX, "mcp"])
        self._files, self._stop_event = files, stop
        self.waits_s: list[float] = []
        self.failures: list[Any] = []

    def run(self) -> None:
        chance = random.Random(5)
        try:
            with self._client as client:
                client.handshake()
                while not self._stop_event.wait(0.25):
                    file = chance.choice(self._files)
                    self._search(client, chance.choice([*file.words[-50:], "pelican"]))
        except (AssertionError, BrokenPipeError) as error:
            self.failures.append(f"the bridge ended: {error}")

    def _search(self, client: Client, query: str) -> None:
        began = time.monotonic()
        answer = client.call("search", query=query, verbosity="full")
        self.waits_s.append(time.monotonic() - began)
        if "error" in answer or answer["result"].get("isError"):
            self.failures.append(answer)
        elif query != "pelican":
            hits = answer["result"]["structuredContent"]["hits"]
            if len({hit["event_uid"] for hit in hits}) > 1:
                self.failures.append(f"{query} was found {len(hits)} times")


def counted(box: Sandbox) -> dict[str, int]:
    """Return how many events the store has of each session."""
    done = box.run("sessions", "--limit", "1000", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["sessions"]
    return {session["session_id"]: session["events"] for session in found}
