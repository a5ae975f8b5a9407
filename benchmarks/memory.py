"""How quick memory is: recall, notes (fsync and comparison included), and the proof of the ledger.

Usage: .venv/bin/python benchmarks/memory.py [--memories 100000] [--records 1000000]
The last line is JSON for programs.
"""

import argparse
import json
import random
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio

from cortex.clock import RandomIds, SystemClock, iso_utc
from cortex.state.database import Database
from cortex.toolsets.memory.core import Core, existing
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.models import Actor, Memory
from cortex.toolsets.memory.notes import Draft
from cortex.toolsets.memory.recall import Reader

CALLS = 300
BATCH = 1000
PARTS = ("ba co di fu ge hi jo ka lu mi no pe ro su ti", "ran ton lek mis dor fan gul sep vor win")
COMMON = "service module test build cache server config file user request error data".split()
PERSON = Actor(author="operator", via="terminal")


class Claims:
    """Made-up claims whose words are as unevenly common as those of a language."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        heads, tails = (part.split() for part in PARTS)
        ends = ("", "er", "al", "um", "ix", "or", "an", "el", "os", "ik", "ar", "en")
        self._words = [
            first + second + end + last
            for first in heads
            for second in tails
            for end in ends
            for last in ("", *heads)
        ]

    def one(self) -> str:
        """Return a claim of eight to twenty words."""
        words = [self._word() for _ in range(self._random.randint(8, 20))]
        return f"The {words[0]} {words[1]} uses {' '.join(words[2:])}"

    def question(self) -> str:
        """Return a question of four words."""
        return f"how does the {' '.join(self._word() for _ in range(4))} work"

    def _word(self) -> str:
        if self._random.random() < 0.2:
            return self._random.choice(COMMON)
        rank = int(self._random.paretovariate(0.5)) - 1
        return self._words[rank % len(self._words)]


async def fill(memories: Memories, claims: Claims, count: int) -> None:
    """Write memories without comparing them, a thousand in a transaction."""
    core = memories.core
    at = iso_utc(core.clock.now())
    made = 0
    while made < count:
        batch = [
            Memory(
                id=f"mem_{made + n:08d}", claim=claims.one(), status="active", trust="reviewed",
                created_at=at, updated_at=at,
            )
            for n in range(min(BATCH, count - made))
        ]  # fmt: skip
        await core.database.write(
            lambda c, batch=batch: [core.write(c, "noted", m, PERSON) for m in batch]
        )
        made += len(batch)


async def lengthen(memories: Memories, records: int) -> None:
    """Let a thousand memories be tagged on and on, until the ledger has so many records."""
    core = memories.core
    number = (await memories.prover.verify()).records
    while number < records:
        count = min(BATCH, records - number)
        first = number

        def live(connection: sqlite3.Connection, first: int = first, count: int = count) -> None:
            for n in range(first, first + count):
                known = existing(connection, f"mem_{n % 1000:08d}")
                core.write(connection, "tagged", replace(known, times_noted=n), PERSON)

        await core.database.write(live)
        number += count


async def timed(call: Callable[[], Awaitable[object]]) -> list[float]:
    """Return how long calls took, in milliseconds, in order."""
    took: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began) * 1000)
    return sorted(took)


def percentiles(took: list[float]) -> dict[str, float]:
    """Return the median and the 95th of a hundred."""
    return {"p50": round(statistics.median(took), 2), "p95": round(took[int(len(took) * 0.95)], 2)}


async def measure(folder: Path, memories_wanted: int, records: int) -> dict[str, object]:
    """Fill a database and measure it."""
    database = Database.open(str(folder / "state.db"))
    core = Core(database=database, clock=SystemClock(), ids=RandomIds())
    core.open()
    memories = Memories(core)
    claims = Claims(1)
    began = time.perf_counter()
    await fill(memories, claims, memories_wanted)
    filled_s = time.perf_counter() - began
    reader = Reader(session="bench", project="")
    agent = Actor(author="agent", via="agent", session="bench")
    search = await timed(lambda: memories.service.search(claims.question(), reader, 10))
    note = await timed(lambda: memories.notes.note(Draft(claim=claims.one()), agent))
    await lengthen(memories, records)
    began = time.perf_counter()
    proof = await memories.prover.verify()
    verify_s = time.perf_counter() - began
    database.close()
    if not proof.is_sound:
        sys.exit(f"the ledger is broken: {proof.differences[:3]}")
    return {
        "memories": memories_wanted,
        "search_ms": percentiles(search),
        "note_ms": percentiles(note),
        "verified_records": proof.records,
        "verify_s": round(verify_s, 2),
        "fill_s": round(filled_s, 1),
        "disk_mb": round(sum(f.stat().st_size for f in folder.iterdir()) / 1e6, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cx-memory-") as folder:
        figures = anyio.run(measure, Path(folder), wanted.memories, wanted.records)
    for name, value in figures.items():
        print(f"{name:<18} {value}")
    print(json.dumps({"benchmark": "memory", **figures}))


if __name__ == "__main__":
    main()
