"""The questions of docs/howto/code.md, asked of our own repository as written."""

import json
import re
import shlex
import subprocess

import pytest

from harness import PATIENCE_S, ROOT, Sandbox

PAGE = ROOT / "docs" / "howto" / "code.md"
COMMAND = re.compile(r"^\./cortex (.+?)(?:  +# (.*))?$", re.MULTILINE)


@pytest.mark.e2e
def test_the_page_finds_what_it_says_it_finds(box: Sandbox) -> None:
    environ = {
        **box.environ,
        "CORTEX_CHUNKS_DIR": str(box.root / "chunks"),
        # By words: the same on every machine, and at once.
        "CORTEX_EMBEDDING__PROVIDER": "none",
    }
    commands = COMMAND.findall(PAGE.read_text())
    assert commands[0][0] == "index"
    assert len(commands) >= 6
    for command, expected in commands:
        is_search = command.startswith("code ")
        done = subprocess.run(
            [str(ROOT / "cortex"), *shlex.split(command), *(["--json"] if is_search else [])],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        if is_search:
            results = json.loads(done.stdout)["results"]
            paths = [result["chunk"]["metadata"]["file_path"] for result in results]
            assert expected in paths, f"{command}: {paths}"
