"""How long `cortex_search` takes through `cortex mcp`, and what a project and its reload cost.

Projects are made up, seeded, with words by Zipf's law. Prints a table for people and, last, one
JSON line.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cortex.embedding.weights import packaged_model

ROOT = Path(__file__).resolve().parent.parent
MB = 1024 * 1024
QUESTIONS = 200
CHUNKS_PER_FILE = 8
VOCABULARY = 20_000
WORDS_PER_CHUNK = 90
LIMIT = 15
_SYLLABLES = (
    "ba ce di fo gu ha ki lo mu ne pa ro sa te vo wi tra pre con ser net log str ver".split()
)


@dataclass(frozen=True)
class Figures:
    """Times in milliseconds, weights in MB."""

    chunks: int
    vectors: bool
    first_ms: float
    p50_ms: float
    p95_ms: float
    project_mb: float
    reload_ms: float
    worst_during_reload_ms: float


class Project:
    """A made-up project of some size, its chunk files written as an indexer does."""

    def __init__(self, root: Path, chunks: int, model: str) -> None:
        self._random = np.random.default_rng(1)
        self._model = model
        self._chunks = chunks
        self._words = self._vocabulary()
        self._folder = root / ".cortex" / "chunks"
        self._folder.mkdir(parents=True)
        weights = 1 / np.arange(3, VOCABULARY + 3)
        self._picked = self._random.choice(
            VOCABULARY, (chunks, WORDS_PER_CHUNK), p=weights / weights.sum()
        )

    def write(self, generation: int) -> None:
        """Write the file of definitions; each generation changes the first file's chunks."""
        path = self._folder / "code-definitions.json"
        fresh = path.with_suffix(".new")
        head = {"model": self._model, "dimensions": 384, "chunk_type": "definitions"}
        random = np.random.default_rng(2)
        with fresh.open("w") as file:
            file.write(json.dumps({"_metadata": head})[:-1] + ',"chunks":[\n')
            for number in range(self._chunks):
                item = self._chunk(number, generation if number < CHUNKS_PER_FILE else 0)
                if self._model:
                    item["embedding"] = np.round(random.normal(size=384), 6).tolist()
                file.write((",\n" if number else "") + json.dumps(item, separators=(",", ":")))
            file.write("\n]}\n")
        fresh.replace(path)

    def questions(self) -> Iterator[str]:
        """Yield questions of three words, rarer than those that are everywhere, and a few names."""
        for number in range(QUESTIONS):
            words = [self._words[i] for i in self._random.integers(20, 2000, 3)]
            yield f"how does {words[0]} {words[1]} the {words[2]}" if number % 5 else words[0]

    def _chunk(self, number: int, generation: int) -> dict[str, Any]:
        words = [self._words[i] for i in self._picked[number]]
        file = number // CHUNKS_PER_FILE
        folder, name = (self._words[i] for i in self._picked[file * CHUNKS_PER_FILE, :2])
        path = f"src/{folder}/{name}_{file}.py"
        text = f"def {words[2]}_{words[3]}():\n    " + " ".join(words) + f" generation{generation}"
        return {
            "id": f"code-definitions-{number}",
            "chunk_type": "definitions",
            "title": f"{path} definitions: {words[2]}",
            "text": text,
            "tags": ["code", "python", "definitions"],
            "metadata": {
                "file_path": path,
                "language": "python",
                "names": [f"{words[2]}_{words[3]}"],
                "start_line": 1,
                "end_line": 20,
            },
        }

    def _vocabulary(self) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < VOCABULARY:
            count = self._random.integers(2, 5)
            words["".join(self._random.choice(_SYLLABLES, count))] = None
        return list(words)


class Client:
    """An MCP client on the stdio of `cortex mcp`, in a project."""

    def __init__(self, cortex: str, environ: dict[str, str], root: Path) -> None:
        self._process = subprocess.Popen(
            [cortex, "mcp", "--toolsets", "code"],
            env=environ,
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._id = 0
        info = {"name": "benchmark", "version": "1"}
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        self._request("initialize", opening)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, query: str, **more: Any) -> tuple[float, dict[str, Any]]:
        """Return how long a search took in milliseconds, and its answer."""
        began = time.perf_counter()
        arguments = {"query": query, "limit": LIMIT, **more}
        answer = self._request("tools/call", {"name": "cortex_search", "arguments": arguments})
        return (time.perf_counter() - began) * 1000, answer["structuredContent"]

    def close(self) -> None:
        """End it as an agent does: by closing its stdin."""
        self._process.communicate(timeout=30)

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self._process.stdout
        answer = json.loads(self._process.stdout.readline())
        if "result" not in answer:
            raise SystemExit(f"{method} answered {answer}")
        return answer["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def measure(cortex: str, chunks: int, *, with_vectors: bool) -> Figures:
    """Measure one project in a home of its own."""
    folder = Path(tempfile.mkdtemp(prefix="cx-bench-"))
    root = folder / "project"
    environ = {**os.environ, "CORTEX_HOME": str(folder / "home")}
    (folder / "home").mkdir(mode=0o700)
    # Without vectors none shall be made meanwhile.
    provider = "local" if with_vectors else "none"
    (folder / "home" / "cortex.toml").write_text(
        f'[limits]\ncalls = 1000000\n[embedding]\nprovider = "{provider}"\n'
    )
    project = Project(root, chunks, packaged_model().name if with_vectors else "")
    project.write(0)
    try:
        subprocess.run([cortex, "up"], env=environ, check=True, stdout=subprocess.DEVNULL)
        pid = int((folder / "home" / "run" / "cortexd.pid").read_text())
        before_mb = psutil.Process(pid).memory_info().rss / MB
        client = Client(cortex, environ, root)
        first_ms, _ = client.ask("first")
        times = [client.ask(question)[0] for question in project.questions()]
        after_mb = psutil.Process(pid).memory_info().rss / MB
        reload_ms, worst_ms = reload(client, project)
        client.close()
    finally:
        subprocess.run([cortex, "down"], env=environ, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
    return Figures(
        chunks=chunks,
        vectors=with_vectors,
        first_ms=first_ms,
        p50_ms=statistics.median(times),
        p95_ms=statistics.quantiles(times, n=20)[-1],
        project_mb=after_mb - before_mb,
        reload_ms=reload_ms,
        worst_during_reload_ms=worst_ms,
    )


def reload(client: Client, project: Project) -> tuple[float, float]:
    """Change one file's chunks and ask on until they are found; returns reload and worst wait."""
    writing = threading.Thread(target=project.write, args=(1,))
    writing.start()
    writing.join()
    worst_ms = 0.0
    while True:
        took_ms, answer = client.ask("generation1", include_stats=True)
        worst_ms = max(worst_ms, took_ms)
        if answer["stats"]["reloads"]["total"]:
            return answer["stats"]["reloads"]["last_duration_ms"], worst_ms


def main() -> None:
    """Measure, print the table, print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--cortex", default=str(ROOT / "cortex"))
    parser.add_argument("--words-only", action="store_true")
    options = parser.parse_args()
    rows = [
        measure(str(Path(options.cortex).resolve()), chunks, with_vectors=with_vectors)
        for chunks in options.chunks
        for with_vectors in ((False,) if options.words_only else (False, True))
    ]
    columns = "first_ms p50_ms p95_ms project_mb reload_ms worst_during_reload_ms".split()
    print(f"{'cortex_search':<24}" + "".join(f"{name:>24}" for name in columns))
    for row in rows:
        name = f"{row.chunks:,} {'and vectors' if row.vectors else 'words only'}"
        print(f"{name:<24}" + "".join(f"{getattr(row, column):>24.1f}" for column in columns))
    print(json.dumps({"benchmark": "code_search", "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
