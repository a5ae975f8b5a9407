"""Forgetting in real processes that are killed with SIGKILL after each of its writes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ingesting import claude_line, written

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(240)]

SCRIPT = Path(__file__).parent.parent / "forgetting.py"


def run(root: Path, writes: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(root), str(writes)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_killed_after_any_write_forgetting_is_finished_or_never_began(tmp_path: Path) -> None:
    died = 0
    for writes in range(1, 40):
        root = tmp_path / str(writes)
        folder = root / "sessions" / "claude-code"
        folder.mkdir(parents=True)
        for session, text in (("gone", "the walrus goes"), ("kept", "the heron stays")):
            lines = [claude_line(session, n, f"{text} {n}") for n in range(4)]
            (folder / f"{session}.jsonl").write_bytes(written(lines))
        first = run(root, writes)
        if first.returncode == 0:
            break
        assert first.returncode == -signal.SIGKILL, first.stderr
        died += 1
        second = run(root, 0)
        assert second.returncode == 0, second.stderr
        said = json.loads(second.stdout)
        if said["rules"]:
            assert (said["left"], said["sessions"]) == ([], ["kept"]), writes
        else:
            assert said["sessions"] == ["gone", "kept"], writes
    assert died > 5
