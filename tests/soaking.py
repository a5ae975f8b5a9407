"""Writers, searchers and a daemon that dies again and again; run by a benchmark and by a test."""

import random
import statistics
import threading
import time

from cortex.edge.launch import connect
from growing import Growing, Searcher, Writer, counted, growing_files
from harness import CORTEX, PATIENCE_S, Sandbox, eventually

_SETTLE_S = 60.0
_START_S = 0.6
_MIN_KILLS = 2  # one of a daemon that is ready, one of a daemon that starts


def soak(
    box: Sandbox, seconds: float, kill_every_s: float, *, sample: int = 40, seed: int = 7
) -> dict[str, object]:
    """Let files grow and daemons die, then compare the store with what was written."""
    files = growing_files(box.root, 2)
    for file in files:
        file.grow()
    stop = threading.Event()
    halves = (files[::2], files[1::2])
    writers = [Writer(half, 0.02, stop) for half in halves]
    searchers = [Searcher(box, files, stop) for _ in range(2)]
    for thread in (*writers, *searchers):
        thread.start()
    kills, early_kills = _kill_for(box, seconds, kill_every_s, random.Random(seed))
    stop.set()
    for thread in (*writers, *searchers):
        thread.join(PATIENCE_S)
    began = time.monotonic()
    is_whole = _settles(box, files)
    settled_s = time.monotonic() - began
    store = counted(box)
    lost = sum(max(0, file.lines - store.get(file.session, 0)) for file in files)
    double = sum(max(0, store.get(file.session, 0) - file.lines) for file in files)
    missed = _missed(box, files, sample, random.Random(seed))
    failures = [failure for searcher in searchers for failure in searcher.failures]
    waits_s = sorted(wait for searcher in searchers for wait in searcher.waits_s)
    return {
        "seconds": seconds,
        "kills": kills,
        "kills_while_starting": early_kills,
        "lines": sum(file.lines for file in files),
        "events": sum(store.get(file.session, 0) for file in files),
        "lost": lost,
        "double": double,
        "sampled": sample,
        "missed": missed,
        "searches": len(waits_s),
        "failed_searches": len(failures),
        "first_failure": str(failures[0])[:300] if failures else "",
        "search_p50_ms": round(statistics.median(waits_s or [0.0]) * 1000, 1),
        "search_max_ms": round(max(waits_s, default=0.0) * 1000, 1),
        "settled_s": round(settled_s, 2),
        "ok": is_whole and not (lost or double or missed or failures),
    }


def _kill_for(
    box: Sandbox, seconds: float, every_s: float, chance: random.Random
) -> tuple[int, int]:
    """Kill daemons, every other one before it is ready; returns how many, and how many of these."""
    kills = early_kills = 0
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0 or kills < _MIN_KILLS:
        if kills % 2:
            eventually(lambda: box.daemon_pid() is not None, "a daemon that starts")
            time.sleep(chance.random() * _START_S)
        else:
            time.sleep(max(0.0, min(left_s, every_s * (0.5 + chance.random()))))
            eventually(lambda: box.run("status").returncode == 0, "a daemon to kill")
        early_kills += not _is_ready(box)
        box.kill_daemon()
        kills += 1
    return kills, early_kills


def _is_ready(box: Sandbox) -> bool:
    reached = connect(box.home)
    if reached is not None:
        reached[0].close()
    return reached is not None


def _settles(box: Sandbox, files: list[Growing]) -> bool:
    wanted = {file.session: file.lines for file in files}
    deadline = time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline:
        if counted(box) == wanted:
            return True
        time.sleep(0.2)
    return False


def _missed(box: Sandbox, files: list[Growing], sample: int, chance: random.Random) -> int:
    """Return how many lines of a sample are not found exactly once."""
    words = [name for file in files for name in file.words]
    missed = 0
    with box.client([*CORTEX, "mcp"]) as client:
        client.handshake()
        for name in chance.sample(words, min(sample, len(words))):
            answer = client.call("search", query=name, verbosity="full")
            if len(answer["result"]["structuredContent"]["hits"]) != 1:
                missed += 1
            time.sleep(0.21)  # below the rate limit
    return missed
