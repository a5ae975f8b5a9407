"""A person lists sessions, forgets some and takes it back: the real daemon, killed in between."""

import json
import subprocess
from typing import Any

import pytest

from harness import CORTEX, PATIENCE_S, Sandbox, eventually
from ingesting import claude_line, written

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


class Writer:
    """A Claude Code session in the sandbox."""

    def __init__(self, box: Sandbox, session_id: str, cwd: str = "/w/demo") -> None:
        folder = box.root / ".claude" / "projects" / "-w-demo"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{session_id}.jsonl"
        self._session, self._cwd = session_id, cwd

    def says(self, *texts: str) -> None:
        lines = [claude_line(self._session, n, t, cwd=self._cwd) for n, t in enumerate(texts)]
        self.path.write_bytes(written(lines))


def shown(box: Sandbox, *options: str) -> list[dict[str, Any]]:
    done = box.run("sessions", "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["sessions"]


def test_a_person_lists_forgets_and_takes_it_back(box: Sandbox) -> None:
    Writer(box, "one").says("the walrus goes", "yes", "the walrus again")
    Writer(box, "two", "/w/other").says("the heron stays")
    assert box.run("ingest").returncode == 0
    eventually(lambda: len(shown(box)) == 2, "both sessions")
    one = next(session for session in shown(box) if session["session_id"] == "one")
    assert (one["turns"], one["events"], one["title"]) == (2, 3, "the walrus goes")
    assert [s["session_id"] for s in shown(box, "--project", "/w/other")] == ["two"]
    assert shown(box, "--harness", "codex") == []
    assert "the walrus goes" in box.run("sessions").stdout

    refused = box.run("forget", "--session", "one")
    assert refused.returncode == 2
    assert "3 events of 1 sessions would go" in refused.stderr
    assert "rows of events" in box.run("forget", "--session", "one", "--dry-run").stdout
    done = box.run("forget", "--session", "one", "--yes")
    assert "3 events forgotten" in done.stdout, done.stderr
    assert json.loads(box.run("search", "walrus", "--json").stdout)["hits"] == []
    # The file is read again from its start, and asked for by name.
    Writer(box, "one").says("the walrus goes", "yes", "the walrus again", "once more")
    box.run("ingest", str(box.root / ".claude"), "--harness", "claude-code")
    assert [s["session_id"] for s in shown(box)] == ["two"]

    rules = json.loads(box.run("forget", "--list", "--json").stdout)["rules"]
    assert [(r["scope"], r["value"], r["counts"]["events"]) for r in rules] == [
        ("session", "one", 3)
    ]
    assert rules[0]["id"] in box.run("forget", "--list").stdout
    assert box.run("forget", "--undo", rules[0]["id"]).returncode == 0
    eventually(lambda: len(shown(box)) == 2, "the session read again")
    assert box.run("forget", "--undo", "nosuch").returncode == 1
    assert box.run("forget").returncode == 2
    assert "nothing to forget" in box.run("forget", "--session", "nobody", "--yes").stdout


@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_forgetting_that_the_daemon_does_not_survive_is_finished_by_the_next(
    box: Sandbox, rounds: int
) -> None:
    for round_no in range(rounds):
        name = f"gone{round_no}"
        Writer(box, name).says(*(f"the walrus number {n}" for n in range(30)))
        assert box.run("ingest").returncode == 0
        eventually(lambda name=name: any(s["session_id"] == name for s in shown(box)), name)
        asked = subprocess.Popen(
            [*CORTEX, "forget", "--session", name, "--yes"],
            env=box.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            asked.wait(0.3 + 0.05 * round_no)
        box.kill_daemon()
        asked.wait(PATIENCE_S)
        rules = json.loads(box.run("forget", "--list", "--json").stdout)["rules"]
        if any(rule["value"] == name for rule in rules):
            eventually(lambda name=name: name not in _sessions(box), "the end of it")
        else:
            assert name in _sessions(box)


def _sessions(box: Sandbox) -> set[str]:
    return {session["session_id"] for session in shown(box)}
