"""Upkeep: decay puts memories up for review or in quarantine, vectors are made. Deletes nothing."""

import sqlite3
from dataclasses import dataclass, replace

import anyio

from cortex.clock import iso_utc
from cortex.errors import CortexError
from cortex.toolsets.memory import queries, vectors
from cortex.toolsets.memory.core import Core, log
from cortex.toolsets.memory.models import RECALLED, Actor, Memory
from cortex.toolsets.memory.scoring import REVIEW_BELOW, salience

_BATCH = 500
_EMBED_BATCH = 64
_EMBED_EVERY_S = 5.0
_DECAY = Actor(author="operator", via="rule", client="decay")


@dataclass(frozen=True, slots=True)
class Decayed:
    """What decay found."""

    seen: int
    quarantined: tuple[str, ...]
    review_wanted: tuple[str, ...]


class Upkeep:
    """What the daemon does to memories by itself."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def decay(self, *, is_dry: bool = False) -> Decayed:
        """Look at every recalled memory; running it twice changes nothing more."""
        seen, row = 0, 0
        quarantined: list[str] = []
        wanted: list[str] = []
        while True:
            batch = await self._core.database.read(
                lambda connection, row=row: queries.of_status(
                    connection, RECALLED, after_row=row, limit=_BATCH
                )
            )
            if not batch:
                return Decayed(seen, tuple(quarantined), tuple(wanted))
            seen, row = seen + len(batch), batch[-1][0]
            changes = [
                changed
                for _, memory in batch
                if (changed := decayed(memory, self._core)) is not None
            ]
            quarantined += [memory.id for kind, memory in changes if kind == "quarantined"]
            wanted += [memory.id for kind, memory in changes if kind == "faded"]
            if changes and not is_dry:
                await self._core.database.write(
                    lambda connection, changes=changes: self._write(connection, changes)
                )

    def _write(self, connection: sqlite3.Connection, changes: list[tuple[str, Memory]]) -> None:
        for kind, changed in changes:
            known = queries.by_id(connection, changed.id)
            # Somebody may have used or changed it since it was read.
            if known is not None and known.is_recalled:
                again = decayed(known, self._core)
                if again is not None:
                    self._core.write(connection, kind, again[1], _DECAY)

    async def run_decay(self) -> None:
        """Decay now and then, for ever."""
        while True:
            found = await self.decay()
            if found.quarantined or found.review_wanted:
                log.info(
                    "memory: %d quarantined, %d up for review",
                    len(found.quarantined),
                    len(found.review_wanted),
                )
            await anyio.sleep(self._core.rules.decay_every_s)

    async def run_embedding(self) -> None:
        """Make the vectors that are missing, for ever; without an embedder there are none."""
        while self._core.embedder is not None:
            try:
                made = await self.embed()
            except CortexError as error:
                log.warning("memory: no vectors, the embedder does not answer: %s", error)
                made = 0
            if not made:
                await anyio.sleep(_EMBED_EVERY_S)

    async def embed(self) -> int:
        """Make up to one batch of missing vectors and return how many."""
        embedder = self._core.embedder
        if embedder is None:
            return 0
        model = await embedder.model()
        batch = await self._core.database.read(
            lambda connection: vectors.missing(connection, model, _EMBED_BATCH)
        )
        if not batch:
            return 0
        made = await embedder.embed([claim for _, _, claim in batch], "passage")
        rows = [(row, sealed, made[i]) for i, (row, sealed, _) in enumerate(batch)]
        await self._core.database.write(lambda connection: vectors.store(connection, model, rows))
        index = self._core.recall.vectors
        if index is not None and index.model == model:
            for row, _, vector in rows:
                index.put(row, vector)
        return len(batch)


def decayed(memory: Memory, core: Core) -> tuple[str, Memory] | None:
    """Return what becomes of a memory at this moment, or None if it stays as it is."""
    now = core.clock.now()
    at = iso_utc(now)
    if memory.trust == "agent" and memory.review_at is not None and memory.review_at <= at:
        reason = "unused past its review date"
        changed = replace(memory, status="quarantined", reason=reason, updated_at=at)
        return "quarantined", changed
    if salience(memory, now) < REVIEW_BELOW and not memory.review_wanted:
        reason = f"its salience fell below {REVIEW_BELOW}"
        return "faded", replace(memory, review_wanted=reason, updated_at=at)
    return None
