"""How long from spawning `cortex mcp` to an answered `initialize`, and what a session weighs.

Against a plain SDK server per session, in the same run, since machines are noisy. Prints a table
for people and, last, one JSON line.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}
MB = 1024 * 1024


@dataclass(frozen=True)
class Figures:
    """Times in milliseconds, weights in MB."""

    p50_ms: float
    p95_ms: float
    session_mb: float


class Session:
    """One spawned server or bridge, opened by `initialize`."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(OPENING).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        self.opened_ms = (time.perf_counter() - began) * 1000
        if "result" not in json.loads(line):
            raise SystemExit(f"{command} answered {line!r}")

    def weight_mb(self) -> float:
        """Return the resident memory of the process and its children."""
        process = psutil.Process(self.process.pid)
        family = [process, *process.children(recursive=True)]
        return sum(member.memory_info().rss for member in family) / MB

    def close(self) -> None:
        """End it as an agent does: by closing its stdin."""
        self.process.communicate(timeout=30)


def measure(command: list[str], environ: dict[str, str], runs: int) -> Figures:
    """Spawn, open and close `runs` sessions one after the other."""
    times: list[float] = []
    weights: list[float] = []
    for _ in range(runs):
        session = Session(command, environ)
        times.append(session.opened_ms)
        weights.append(session.weight_mb())
        session.close()
    p95_ms = statistics.quantiles(times, n=20)[-1]
    return Figures(statistics.median(times), p95_ms, statistics.median(weights))


def daemon_pid(environ: dict[str, str]) -> int:
    """Return the pid of the daemon of this home."""
    return int((Path(environ["CORTEX_HOME"]) / "run" / "cortexd.pid").read_text())


def idle_percent(pid: int, seconds: float) -> float:
    """Return how much of one core a process uses while nothing is asked of it."""
    process = psutil.Process(pid)
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    used_s = after.user + after.system - before.user - before.system
    return used_s / seconds * 100


def main() -> None:
    """Measure, print the table, print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--idle-seconds", type=float, default=20)
    options = parser.parse_args()

    folder = tempfile.mkdtemp(prefix="cx-bench-")
    environ = {**os.environ, "CORTEX_HOME": f"{folder}/home"}
    bridge = [str(ROOT / "cortex"), "mcp"]
    rival = [sys.executable, str(ROOT / "benchmarks" / "sdk_server.py")]
    try:
        subprocess.run([ROOT / "cortex", "up"], env=environ, check=True, stdout=subprocess.DEVNULL)
        pid = daemon_pid(environ)
        rows: dict[str, Any] = {}
        rows["cortex mcp, 1 session"] = measure(bridge, environ, options.runs)
        one_mb = psutil.Process(pid).memory_info().rss / MB
        crowd = [Session(bridge, environ) for _ in range(options.sessions)]
        rows[f"cortex mcp, {options.sessions} open"] = measure(bridge, environ, options.runs)
        many_mb = psutil.Process(pid).memory_info().rss / MB
        crowd_mb = sum(session.weight_mb() for session in crowd)
        idle = idle_percent(pid, options.idle_seconds)
        for session in crowd:
            session.close()
        rows["plain SDK server"] = measure(rival, environ, options.runs)
    finally:
        subprocess.run(
            [ROOT / "cortex", "down"], env=environ, check=False, stdout=subprocess.DEVNULL
        )
        shutil.rmtree(folder, ignore_errors=True)

    ours, theirs = rows["cortex mcp, 1 session"], rows["plain SDK server"]
    print(f"{'spawn -> initialize answered':<32}{'p50 ms':>9}{'p95 ms':>9}{'MB/session':>12}")
    for name, row in rows.items():
        print(f"{name:<32}{row.p50_ms:>9.1f}{row.p95_ms:>9.1f}{row.session_mb:>12.1f}")
    print(f"daemon: {one_mb:.0f} MB with no session, {many_mb:.0f} MB with {options.sessions};")
    print(f"{options.sessions} bridges together: {crowd_mb:.0f} MB; idle: {idle:.2f} % of a core")
    print(
        json.dumps(
            {
                "benchmark": "startup",
                "p50_ms": round(ours.p50_ms, 1),
                "p95_ms": round(ours.p95_ms, 1),
                "bridge_mb": round(ours.session_mb, 1),
                "p50_ms_crowded": round(rows[f"cortex mcp, {options.sessions} open"].p50_ms, 1),
                "daemon_mb": round(one_mb),
                "daemon_mb_crowded": round(many_mb),
                "idle_percent": round(idle, 2),
                "sdk_p50_ms": round(theirs.p50_ms, 1),
                "sdk_mb": round(theirs.session_mb, 1),
                "times_faster": round(theirs.p50_ms / ours.p50_ms, 1),
                "budget": {"p50_ms": 40, "bridge_mb": 15},
                "within_budget": ours.p50_ms <= 40 and ours.session_mb <= 15,
            }
        )
    )


if __name__ == "__main__":
    main()
