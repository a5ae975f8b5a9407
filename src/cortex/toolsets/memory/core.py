"""What every part of memory stands on: the state, the index, the clock, and what is passed in."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from cortex.clock import Clock, IdSource, iso_utc
from cortex.errors import CortexError, NotFound
from cortex.state.database import Database
from cortex.toolsets.memory import queries, vectors
from cortex.toolsets.memory.approval import Codes
from cortex.toolsets.memory.changes import Changes, indexed_terms
from cortex.toolsets.memory.evidence import EvidenceCheck
from cortex.toolsets.memory.models import Actor, Memory
from cortex.toolsets.memory.recall import Recall
from cortex.toolsets.memory.vectors import Embedder, Floats

log = logging.getLogger(__name__)

T = TypeVar("T")
FindSecrets = Callable[[str], Sequence[str]]
"""Returns the kinds of secrets in a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an operator may set."""

    review_after_days: float = 30.0
    decay_every_s: float = 86_400.0


@dataclass(slots=True, kw_only=True)
class Core:
    """The parts, by name. One `Core` per daemon: its index is the only one that is kept current."""

    database: Database
    clock: Clock
    ids: IdSource
    checks: EvidenceCheck = field(default_factory=EvidenceCheck)
    find_secrets: FindSecrets = lambda _text: ()
    embedder: Embedder | None = None
    rules: Rules = field(default_factory=Rules)
    recall: Recall = field(default_factory=Recall)

    @property
    def changes(self) -> Changes:
        """What writes."""
        return Changes(self.clock)

    @property
    def codes(self) -> Codes:
        """One-time approval codes."""
        return Codes(self.clock)

    def open(self, moved: str | None = None) -> None:
        """Make the tables; `moved` names a damaged file that was put aside."""
        self.database.write_now(lambda connection: self.changes.create(connection, self.ids, moved))

    def now(self) -> str:
        """Return this moment as records write it."""
        return iso_utc(self.clock.now())

    def review_at(self) -> str:
        """Return when a memory that was noted now must have helped somebody."""
        return iso_utc(self.clock.now() + timedelta(days=self.rules.review_after_days))

    def write(
        self,
        connection: sqlite3.Connection,
        kind: str,
        memory: Memory,
        actor: Actor,
        **detail: object,
    ) -> Memory:
        """Record a change, and keep what is remembered of the index true."""
        row = self.changes.record(connection, kind, memory, actor, **detail)
        self.recall.postings.add(row, indexed_terms(memory))
        return memory

    async def one(self, memory_id: str) -> Memory:
        """Return a memory, or say that there is none."""
        return await self.database.read(lambda connection: existing(connection, memory_id))

    async def some(self, ids: Sequence[str]) -> list[Memory]:
        """Return memories in the order they are named; each must be there."""
        return await self.database.read(
            lambda connection: [existing(connection, memory_id) for memory_id in dict.fromkeys(ids)]
        )

    async def vector(self, text: str, *, is_query: bool) -> Floats | None:
        """Return the vector of a text, or None: words alone then have to do."""
        if self.embedder is None:
            return None
        try:
            model = await self.embedder.model()
            if self.recall.vectors is None or self.recall.vectors.model != model:
                self.recall.vectors = await self.database.read(
                    lambda connection: vectors.load(connection, model)
                )
            return (await self.embedder.embed([text], "query" if is_query else "passage"))[0]
        except CortexError as error:
            log.warning("memory: words alone, the embedder does not answer: %s", error)
            return None


def existing(connection: sqlite3.Connection, memory_id: str) -> Memory:
    """Return a memory of the caller's transaction, or say that there is none."""
    memory = queries.by_id(connection, memory_id)
    if memory is None:
        raise NotFound("memory", memory_id[:64])
    return memory
