"""Conversations: how fast session files are read, searched and opened, and what they weigh.

For each size: session files of that many events are written (see corpus.py), a daemon reads them,
and searches and opens go through `cortex mcp` as an agent's do. The same queries run on SQLite FTS5
and, where the package is installed, on tantivy, over the same ranked texts, in the same run. Prints
a table for people and, last, one JSON line.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import psutil
from corpus import Corpus, write_corpus
from rivals import LIMIT, fts5, tantivy

ROOT = Path(__file__).resolve().parent.parent
MB = 1024 * 1024
QUERIES = 200
GOALS = {
    100_000: {"search_p50_ms": 15, "search_p95_ms": 60},
    1_000_000: {"search_p50_ms": 25, "search_p95_ms": 120, "open_p50_ms": 10},
}
CONFIG = """
[limits]
calls = 1000000
"""


@dataclass
class Row:
    """What one size measured; times in milliseconds."""

    events: int
    session_mb: float
    backfill_events_per_s: float
    daemon_peak_mb: float
    disk_ratio: float
    search_p50_ms: float
    search_p95_ms: float
    fts5_p50_ms: float
    fts5_p95_ms: float
    tantivy_p50_ms: float | None
    tantivy_p95_ms: float | None
    open_p50_ms: float
    open_p95_ms: float
    found_p95_ms: float
    second_start_s: float
    second_start_events: int


class Agent:
    """One `cortex mcp`, spoken to as an agent does."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [ROOT / "cortex", "mcp"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._last = 0
        info = {"name": "benchmark", "version": "1"}
        self._ask(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info},
        )

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return what it answered in full."""
        arguments["verbosity"] = "full"
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if answer["result"].get("isError"):
            raise SystemExit(f"{tool}: {answer['result']['content'][0]['text']}")
        return answer["result"]["structuredContent"]

    def close(self) -> None:
        """End it as an agent does: by closing its stdin."""
        self._process.communicate(timeout=30)

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "result" not in answer:
            raise SystemExit(f"{method} answered {answer}")
        return answer


class Peak:
    """The most memory that a process and its children held together while it was watched."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.mb = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.2):
            with contextlib.suppress(psutil.NoSuchProcess):
                family = [self._process, *self._process.children(recursive=True)]
                # Shared pages counted once: forked children share most of theirs.
                self.mb = max(self.mb, sum(p.memory_full_info().pss for p in family) / MB)


def cortex(environ: dict[str, str], *arguments: str) -> str:
    """Run a command and return what it printed."""
    done = subprocess.run(
        [ROOT / "cortex", *arguments], env=environ, check=True, capture_output=True, text=True
    )
    return done.stdout


def status(environ: dict[str, str]) -> dict[str, Any]:
    """Return what the daemon says of itself."""
    return json.loads(cortex(environ, "status", "--json"))


def wait_until_read(environ: dict[str, str], size_bytes: int) -> None:
    """Wait until the daemon has read every byte."""
    while True:
        ingest = status(environ)["ingest"]
        if ingest["bytes_done"] >= size_bytes and not ingest["is_reading"]:
            return
        time.sleep(0.1)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long a work took, in milliseconds, and what it returned."""
    began = time.perf_counter()
    result = work()
    return (time.perf_counter() - began) * 1000, result


def percentiles(times: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


def queries(corpus: Corpus, seed: int = 7) -> list[str]:
    """Return queries of two to five words: rare, middling and broad ones, as people mix them."""
    chance = random.Random(seed)
    bounds = ((0, 100), (100, 3_000), (3_000, 40_000))
    made: list[str] = []
    for _ in range(QUERIES):
        picked = [chance.choices(bounds, (0.3, 0.35, 0.35))[0] for _ in range(chance.randint(2, 5))]
        made.append(" ".join(corpus.words[chance.randrange(*bound)] for bound in picked))
    return made


def found_after_append(agent: Agent, corpus: Corpus, home: Path, runs: int = 20) -> list[float]:
    """Append lines to a session file, and take the time until each is found."""
    path = next((home / ".claude").rglob("*.jsonl"))
    last = json.loads(path.read_text().splitlines()[-1])
    times: list[float] = []
    for number in range(runs):
        word = f"needle{number}x{corpus.events}"
        block = {"type": "text", "text": f"the {word} was found"}
        last |= {"uuid": word, "message": {"role": "assistant", "content": [block]}}
        last["type"] = "assistant"
        began = time.perf_counter()
        with path.open("a") as file:
            file.write(json.dumps(last) + "\n")
        while not agent.call("search", query=word)["hits"]:
            time.sleep(0.01)
        times.append((time.perf_counter() - began) * 1000)
    return times


def measure(events: int, folder: Path) -> Row:
    """Measure one size in a folder of its own."""
    home = folder / "home"
    corpus = write_corpus(home, events)
    environ = {**os.environ, "HOME": str(home), "CORTEX_HOME": str(folder / "cortex")}
    (folder / "cortex").mkdir(mode=0o700)
    (folder / "cortex" / "cortex.toml").write_text(CONFIG)
    size_bytes = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
    began = time.perf_counter()
    cortex(environ, "up")
    try:
        with Peak(status(environ)["pid"]) as peak:
            wait_until_read(environ, size_bytes)
        backfill_s = time.perf_counter() - began
        cortex(environ, "down")
        began = time.perf_counter()
        cortex(environ, "up")
        wait_until_read(environ, size_bytes)
        second_s = time.perf_counter() - began
        second_events = status(environ)["ingest"].get("events_read", 0)
        settle(folder / "cortex" / "clickhouse")
        disk = sum(path.stat().st_size for path in (folder / "cortex").rglob("*") if path.is_file())
        agent = Agent(environ)
        asked = queries(corpus)
        agent.call("search", query=asked[0])
        searches = [
            timed(partial(agent.call, "search", query=query, limit=LIMIT)) for query in asked
        ]
        uids = [hit["event_uid"] for _, answer in searches for hit in answer["hits"][:1]]
        opens = [timed(partial(agent.call, "open", event_uid=uid))[0] for uid in uids]
        found = found_after_append(agent, corpus, home)
        agent.close()
    finally:
        cortex(environ, "down")
    with fts5(corpus) as search:
        theirs = percentiles([timed(partial(search, query))[0] for query in asked])
    with tantivy(corpus) as search:
        other = (None, None)
        if search is not None:
            other = percentiles([timed(partial(search, query))[0] for query in asked])
    ours = percentiles([took for took, _ in searches])
    opened = percentiles(opens)
    return Row(
        events=events,
        session_mb=size_bytes / MB,
        backfill_events_per_s=events / backfill_s,
        daemon_peak_mb=peak.mb,
        disk_ratio=disk / size_bytes,
        search_p50_ms=ours[0],
        search_p95_ms=ours[1],
        fts5_p50_ms=theirs[0],
        fts5_p95_ms=theirs[1],
        tantivy_p50_ms=other[0],
        tantivy_p95_ms=other[1],
        open_p50_ms=opened[0],
        open_p95_ms=opened[1],
        found_p95_ms=percentiles(found)[1],
        second_start_s=second_s,
        second_start_events=second_events,
    )


def settle(store: Path) -> None:
    """Wait until the store has stopped merging: its size is the same for some seconds."""
    sizes: list[int] = []
    while len(sizes) < 6 or len(set(sizes[-6:])) > 1:
        with contextlib.suppress(FileNotFoundError):
            sizes.append(sum(p.stat().st_size for p in store.rglob("*") if p.is_file()))
        if len(sizes) > 60:
            return
        time.sleep(1)


def main() -> None:
    """Measure each size, print the table, print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--folder", help="where the files go; a temporary one by default")
    options = parser.parse_args()
    rows: list[Row] = []
    for events in options.events:
        folder = Path(tempfile.mkdtemp(prefix="cx-bench-", dir=options.folder))
        try:
            rows.append(measure(events, folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{events} events are done", file=sys.stderr)
    columns = [asdict(row) for row in rows]
    for name in columns[0]:
        shown = ["-" if row[name] is None else f"{row[name]:,.1f}" for row in columns]
        print(f"{name:<24}" + "".join(f"{value:>14}" for value in shown))
    missed = [
        f"{name} at {row.events}"
        for row in rows
        for name, goal in GOALS.get(row.events, {}).items()
        if getattr(row, name) > goal
    ]
    rounded = [
        {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()} for row in columns
    ]
    print(json.dumps({"benchmark": "conversations", "sizes": rounded, "missed": missed}))


if __name__ == "__main__":
    main()
