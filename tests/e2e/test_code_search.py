"""Code search through the real daemon and the real bridge."""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from code_chunks import chunk, write_chunks, write_whole
from code_vectors import LetterModel, embed_pending
from harness import CORTEX, Client, Sandbox, eventually
from tiny_model import write_tiny_model

pytestmark = pytest.mark.e2e

BRIDGE = [*CORTEX, "mcp", "--toolsets", "code"]


def opened(box: Sandbox, root: Path, **environ: str) -> Client:
    root.mkdir(exist_ok=True)
    client = box.client(BRIDGE, environ=environ, cwd=root)
    client.handshake()
    return client


def paths(answer: dict[str, Any]) -> list[str]:
    results = answer["result"]["structuredContent"]["results"]
    return [result["chunk"]["metadata"]["file_path"] for result in results]


def test_each_session_searches_the_project_it_was_started_in(box: Sandbox, tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name / ".cortex" / "chunks"
        write_chunks(folder, [chunk(f"{name}.py", "def login(): ...", "login")])
    with opened(box, tmp_path / "one") as one, opened(box, tmp_path / "two") as two:
        assert paths(one.call("cortex_search", query="login")) == ["one.py"]
        assert paths(two.call("cortex_search", query="login")) == ["two.py"]
    chosen = str(tmp_path / "two" / ".cortex" / "chunks")
    with opened(box, tmp_path / "one", CORTEX_CHUNKS_DIR=chosen) as third:
        assert paths(third.call("cortex_search", query="login")) == ["two.py"]


def test_an_empty_query_is_32602_and_a_project_without_an_index_32603(
    box: Sandbox, tmp_path: Path
) -> None:
    with opened(box, tmp_path / "none") as client:
        assert client.call("cortex_search", query=" ")["error"]["code"] == -32602
        error = client.call("cortex_search", query="x")["error"]
        assert error["code"] == -32603
        assert "cortex index" in error["message"] + str(error.get("data"))


def test_what_is_written_is_found_without_a_restart(box: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "p" / ".cortex" / "chunks"
    write_chunks(folder, [chunk("old.py", "def login(): ...", "login")])
    with opened(box, tmp_path / "p") as client:
        assert paths(client.call("cortex_search", query="login")) == ["old.py"]
        write_chunks(folder, [chunk("new.py", "def login(): ...", "login")])
        eventually(
            lambda: paths(client.call("cortex_search", query="login")) == ["new.py"], "a reload"
        )
        write_whole(folder / "code-definitions.json", '{"chunks": [')
        eventually(lambda: "the old state is kept" in box.log(), "word of the corrupt file")
        assert paths(client.call("cortex_search", query="login")) == ["new.py"]


def test_the_tool_says_that_it_only_reads(box: Sandbox, tmp_path: Path) -> None:
    with opened(box, tmp_path / "p") as client:
        (tool,) = client.request("tools/list")["result"]["tools"]
        assert tool["name"] == "cortex_search"
        assert tool["annotations"]["readOnlyHint"] is True
        assert set(tool["inputSchema"]["properties"]) == {
            "query",
            "limit",
            "tags",
            "chunk_types",
            "path",
            "include_stats",
        }


def indexed(box: Sandbox, name: str = "project") -> Path:
    root = box.root / name
    root.mkdir()
    (root / "jar.py").write_text("def cookie():\n    return 'session'\n")
    (root / "README.md").write_text("# Socket\n\nsocket query\n")
    done = box.run("index", str(root))
    assert done.returncode == 0, done.stderr
    return root


def states(box: Sandbox) -> list[dict[str, Any]]:
    return box.status()["projects"]


def test_after_an_index_vectors_begin_at_once_and_status_shows_how_far_they_are(
    box: Sandbox,
) -> None:
    model = write_tiny_model(box.root / "tiny")
    box.configure(f'[embedding]\nmodel_dir = "{model}"\n')
    box.run("up")
    root = indexed(box)
    (state,) = states(box)
    assert state["folder"] == str((root / ".cortex" / "chunks").resolve())
    assert state["chunks"] > 1
    eventually(lambda: states(box)[0]["chunks_with_vectors"] == state["chunks"], "all vectors")
    assert states(box)[0]["model"].startswith("tiny@")
    assert f"vectors of {state['chunks']} of {state['chunks']} chunks" in box.run("status").stdout
    found = json.loads(box.run("code", "cookie", "--json", cwd=root).stdout)
    assert found["stats"]["words_only"] == ""
    assert "vector" in found["results"][0]["explanation"]


def test_index_says_when_the_vectors_are_of_another_model(box: Sandbox) -> None:
    box.configure('[embedding]\nprovider = "none"\n')
    root = indexed(box)
    embed_pending(root / ".cortex" / "chunks", LetterModel("letters@1"))
    assert "letters@1" not in box.run("index", str(root)).stderr
    box.configure(f'[embedding]\nmodel_dir = "{write_tiny_model(box.root / "tiny")}"\n')
    for is_daemon in (False, True):
        if is_daemon:
            box.run("up")
        said = box.run("index", str(root)).stderr
        assert "the vectors are by letters@1, and tiny@" in said
        assert "cortex index --re-embed" in said
    assert box.run("code", "cookie", cwd=root).returncode == 1
    assert box.run("index", str(root), "--re-embed").stderr == ""
    eventually(lambda: states(box)[0]["model"].startswith("tiny@"), "vectors of the new model")
    assert box.run("code", "cookie", cwd=root).returncode == 0


def test_code_shows_places_and_snippets_and_knows_its_filters(box: Sandbox) -> None:
    box.configure('[embedding]\nprovider = "none"\n')
    root = indexed(box)
    shown = box.run("code", "cookie", cwd=root)
    assert shown.returncode == 0, shown.stderr
    assert "jar.py:1-2  definitions" in shown.stdout
    assert "    def cookie():" in shown.stdout
    assert "results of" in shown.stdout
    documents = json.loads(
        box.run("code", "socket", "--type", "documentation", "--json", cwd=root).stdout
    )
    assert {r["chunk"]["chunk_type"] for r in documents["results"]} == {"documentation"}
    for arguments in (["--tag", "nowhere"], ["--path", "src/**"]):
        assert "0 results" in box.run("code", "cookie", *arguments, cwd=root).stdout
    assert box.run("code", "cookie", "--type", "poetry", cwd=root).returncode == 2
    assert "cortex index" in box.run("code", "cookie", cwd=box.root).stderr


def on_a_terminal(box: Sandbox, root: Path, *arguments: str, answer: bytes = b"") -> bytes:
    """Run a command on a terminal and return what it showed there."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*CORTEX, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**box.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        cwd=root,
    )
    os.close(theirs)
    os.write(ours, answer)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    assert process.wait() == 0
    return shown


@pytest.mark.parametrize(("answer", "are_dropped"), [(b"y\n", True), (b"n\n", False)])
def test_on_a_terminal_index_asks_whether_to_embed_again(
    box: Sandbox, answer: bytes, *, are_dropped: bool
) -> None:
    box.configure(f'[embedding]\nmodel_dir = "{write_tiny_model(box.root / "tiny")}"\n')
    root = indexed(box)
    folder = root / ".cortex" / "chunks"
    embed_pending(folder, LetterModel("letters@1"))
    shown = on_a_terminal(box, root, "index", answer=answer)
    assert b"made again?" in shown
    assert (b"letters@1" not in (folder / "code-definitions.json").read_bytes()) is are_dropped


def test_a_terminal_shows_code_in_colours(box: Sandbox) -> None:
    box.configure('[embedding]\nprovider = "none"\n')
    root = indexed(box)
    shown = on_a_terminal(box, root, "code", "cookie")
    assert b"\x1b[" in shown.split(b"cookie", 1)[0]
    assert b"def cookie" not in shown  # the keyword has a colour of its own
