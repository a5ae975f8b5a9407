"""Context packs: which memories fit a task and a budget, and why the others were left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cortex.toolsets.memory.models import Memory
from cortex.toolsets.memory.scoring import tokens
from cortex.toolsets.memory.words import terms

Reason = Literal["budget", "stale evidence", "low score", "says the same", "contradicted"]
_LOWEST_SHARE = 0.25
"""A memory scored lower than this share of the best one is not about the task."""
_SAME = 0.8


class Scored(Protocol):
    """A hit of a search."""

    @property
    def memory(self) -> Memory: ...
    @property
    def score(self) -> float: ...
    @property
    def is_stale(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Left:
    """A memory that was left out."""

    memory_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Pack:
    """What goes to the model, and what does not."""

    chosen: tuple[Scored, ...]
    left_out: tuple[Left, ...]
    tokens: int
    max_tokens: int


def pack(hits: Sequence[Scored], max_tokens: int) -> Pack:
    """Take the best hits that fit, in order."""
    chosen: list[Scored] = []
    left: list[Left] = []
    used = 0
    for hit in hits:
        cost = tokens(line(hit))
        reason = _reason(hit, chosen, best=hits[0].score)
        if reason is None and used + cost > max_tokens:
            reason = "budget"
        if reason is not None:
            left.append(Left(hit.memory.id, reason))
            continue
        chosen.append(hit)
        used += cost
    return Pack(tuple(chosen), tuple(left), used, max_tokens)


def line(hit: Scored) -> str:
    """Write a memory as a model reads it."""
    return f"- [{hit.memory.id}, {hit.memory.trust}] {hit.memory.claim}"


def _reason(hit: Scored, chosen: Sequence[Scored], *, best: float) -> Reason | None:
    if hit.is_stale:
        return "stale evidence"
    if hit.score < _LOWEST_SHARE * best:
        return "low score"
    own = frozenset(terms(hit.memory.claim))
    for other in chosen:
        if hit.memory.id in other.memory.contradicts or other.memory.id in hit.memory.contradicts:
            return "contradicted"
        theirs = frozenset(terms(other.memory.claim))
        if own and len(own & theirs) / len(own | theirs) >= _SAME:
            return "says the same"
    return None
