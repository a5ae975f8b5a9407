"""cortex-embed as a process: the contract that project-cortex 1.3.1 expects, over real HTTP."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from harness import Sandbox, eventually
from tiny_model import write_tiny_model

pytestmark = pytest.mark.e2e

COMMAND = [sys.executable, "-m", "cortex.embedding.main"]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = write_tiny_model(tmp_path / "tiny")
    process = subprocess.Popen([*COMMAND, "--port", str(port), "--model-dir", str(folder)])
    try:
        eventually(lambda: _answers(port) or process.poll() is not None, "cortex-embed")
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_serves_vectors_and_ends_when_told_to(url: str) -> None:
    known = httpx2.get(url).json()
    assert known["status"] == "ok"
    assert known["model"].startswith("tiny@")
    answer = httpx2.post(f"{url}/embed", json={"texts": ["cookie", "jar"], "mode": "passage"})
    rows = answer.json()["embeddings"]
    assert [len(row) for row in rows] == [384, 384]
    assert rows[0].index(max(rows[0])) == 1


def test_without_a_model_it_says_so_and_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--port", "0", "--model-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("cortex-embed: ")
    assert "it needs tokenizer.json" in done.stderr


def test_cortex_run_embed_is_the_same_service(box: Sandbox) -> None:
    box.configure(f'[embedding]\nmodel_dir = "{box.root / "nowhere"}"\n')
    done = box.run("run", "embed")
    assert done.returncode == 1
    assert done.stderr.startswith("cortex-embed: ")
    assert f"{box.root / 'nowhere'} holds no model" in done.stderr


def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*COMMAND, "--port", port, "--model-dir", str(folder)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == f"cortex-embed: 127.0.0.1:{port} cannot be used: Address already in use\n"
