"""Principles: what several reviewed memories of several domains say together. Deterministic.

A principle is the most central of at least three reviewed memories that share what they say and
carry at least two different tags between them. Nothing is stored: it lasts as long as its support.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from cortex.state.ledger import digest
from cortex.toolsets.memory.models import Memory
from cortex.toolsets.memory.words import terms

MIN_MEMORIES, MIN_DOMAINS = 3, 2
MAX_MEMORIES = 2000
_ALIKE = 0.35
# A term that so many memories have does not bring two of them together.
_COMMON = 200


@dataclass(frozen=True, slots=True)
class Principle:
    """A claim and what supports it."""

    id: str
    claim: str
    confidence: float
    memories: tuple[str, ...]
    domains: tuple[str, ...]

    @property
    def is_supported(self) -> bool:
        """Whether it is a principle, or only a candidate for one."""
        return len(self.memories) >= MIN_MEMORIES and len(self.domains) >= MIN_DOMAINS


def principles(memories: Sequence[Memory]) -> list[Principle]:
    """Return principles and candidates among reviewed memories, the best supported first."""
    said = {memory.id: frozenset(terms(memory.claim)) for memory in memories[:MAX_MEMORIES]}
    by_id = {memory.id: memory for memory in memories}
    groups = _groups(said)
    found = [_principle([by_id[i] for i in group], said) for group in groups]
    return sorted(found, key=lambda one: (-len(one.memories), -len(one.domains), one.id))


def _groups(said: dict[str, frozenset[str]]) -> list[list[str]]:
    """Return the ids that hang together by what they share, in groups of two and more."""
    parent = {one: one for one in said}

    def root(one: str) -> str:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    having: dict[str, list[str]] = defaultdict(list)
    for one, words in said.items():
        for word in words:
            having[word].append(one)
    shared: Counter[tuple[str, str]] = Counter()
    for ids in having.values():
        if len(ids) <= _COMMON:
            shared.update(combinations(sorted(ids), 2))
    for (one, other), count in shared.items():
        if count / len(said[one] | said[other]) >= _ALIKE:
            first, second = sorted((root(one), root(other)))
            parent[second] = first
    groups: dict[str, list[str]] = defaultdict(list)
    for one in said:
        groups[root(one)].append(one)
    return [sorted(group) for group in groups.values() if len(group) > 1]


def _principle(group: Sequence[Memory], said: dict[str, frozenset[str]]) -> Principle:
    common = Counter(word for memory in group for word in said[memory.id])

    def centrality(memory: Memory) -> float:
        words = said[memory.id]
        return sum(common[word] for word in words) / (len(words) or 1)

    central = max(group, key=lambda memory: (centrality(memory), memory.confidence, memory.id))
    return Principle(
        id=f"prn_{digest(central.id)[:16]}",
        claim=central.claim,
        confidence=min(memory.confidence for memory in group),
        memories=tuple(memory.id for memory in group),
        domains=tuple(sorted({tag for memory in group for tag in memory.tags})),
    )
