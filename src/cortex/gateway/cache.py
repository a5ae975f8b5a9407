"""Answers that may be given again: by tool, validated arguments, principal and generation."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cachetools

from cortex.clock import Clock
from cortex.gateway.spec import Caller, Params, Result, ToolSpec

MAX_BYTES = 32 * 1024 * 1024


class Generations:
    """A count per toolset that grows with every change, so that no stale answer is found."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def of(self, toolset: str) -> int:
        """Return the generation of what this toolset reads."""
        return self._counts[toolset]

    def bump(self, toolsets: Iterable[str]) -> None:
        """Say that what these toolsets read has changed."""
        self._counts.update(toolsets)


@dataclass(frozen=True, slots=True)
class _Entry:
    result: Result
    ttl_s: float
    size_bytes: int


def _expires_at(_key: str, entry: _Entry, now: float) -> float:
    return now + entry.ttl_s


class ResultCache:
    """Bounded by bytes; the least recently used goes first."""

    def __init__(self, clock: Clock, max_bytes: int = MAX_BYTES) -> None:
        self._entries: cachetools.TLRUCache[str, _Entry] = cachetools.TLRUCache(
            maxsize=max_bytes,
            ttu=_expires_at,
            timer=clock.monotonic,
            getsizeof=lambda entry: entry.size_bytes,
        )

    @staticmethod
    def key(spec: ToolSpec, params: Params, caller: Caller, generation: int) -> str:
        """Name an answer by everything it depends on."""
        # A tool may look at where its session runs: two projects of one user are two answers.
        place = [caller.principal, caller.cwd, dict(caller.environ)]
        parts: list[Any] = [spec.name, params.model_dump(mode="json"), place, generation]
        # Not orjson: it has no word for infinity and writes it as null, and no large integers.
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> Result | None:
        """Return the answer if it is still fresh."""
        entry = self._entries.get(key)
        return entry.result if entry else None

    def put(self, key: str, result: Result, *, ttl_s: float, size_bytes: int) -> None:
        """Keep an answer; one larger than the whole cache is not kept."""
        if size_bytes <= self._entries.maxsize:
            self._entries[key] = _Entry(result, ttl_s, size_bytes)
