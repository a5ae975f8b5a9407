"""Reading memories: search with explained scores, one memory whole, lists, suggestions, packs."""

from collections.abc import Sequence
from dataclasses import dataclass

from cortex.errors import InvalidParams
from cortex.state.ledger import Record
from cortex.toolsets.memory import queries
from cortex.toolsets.memory.core import Core, existing
from cortex.toolsets.memory.evidence import MAX_CHECKED
from cortex.toolsets.memory.models import LIVING, Memory, Outcome
from cortex.toolsets.memory.packs import Pack, pack
from cortex.toolsets.memory.queries import Filter
from cortex.toolsets.memory.recall import Reader
from cortex.toolsets.memory.scoring import Parts, factors, salience
from cortex.toolsets.memory.words import query_terms

MAX_HISTORY = 50
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found, why, and whether its evidence still stands."""

    memory: Memory
    parts: Parts
    is_stale: bool

    @property
    def score(self) -> float:
        """Relevance times every factor."""
        return self.parts.score


@dataclass(frozen=True, slots=True)
class Whole:
    """One memory with everything that happened to it."""

    memory: Memory
    is_stale: bool
    salience: float
    outcomes: Sequence[Outcome]
    history: Sequence[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the memories are doing, with the first ids of what needs a look."""

    by_status: dict[str, int]
    unvalidated: int
    stale: tuple[str, ...]
    stale_checked: int
    contradicted: tuple[list[str], int]
    near_duplicates: tuple[list[str], int]
    secrets: tuple[list[str], int]
    review_wanted: tuple[list[str], int]
    duplicate_rate: float


class MemoryService:
    """Answers what is known."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def search(self, query: str, reader: Reader, limit: int) -> list[Hit]:
        """Find recalled memories, best first."""
        if not query_terms(query, 1):
            raise InvalidParams("query: words to look for, and there are none")
        vector = await self._core.vector(query, is_query=True)
        matches = await self._core.database.read(
            lambda connection: self._core.recall.find(
                connection, query, reader, vector=vector, limit=limit
            )
        )
        now = self._core.clock.now()
        stale = await self._core.checks.stale(match.memory for match in matches)
        hits: list[Hit] = []
        for match in matches:
            is_stale = match.memory.id in stale
            about = factors(match.memory, project=reader.project, now=now, is_stale=is_stale)
            parts = Parts(words=match.words, meaning=match.meaning, **about)
            if parts.score > 0:
                hits.append(Hit(match.memory, parts, is_stale))
        hits.sort(key=lambda hit: (-hit.score, hit.memory.id))
        return hits[:limit]

    async def suggest(self, query: str, reader: Reader, limit: int) -> list[Hit]:
        """Return a few memories worth knowing here, with a question or without."""
        if query.strip():
            return await self.search(query, reader, limit)
        projects = tuple(dict.fromkeys((reader.project, "")))
        known = await self._core.database.read(
            lambda connection: queries.best_known(connection, projects, 5 * limit)
        )
        now = self._core.clock.now()
        stale = await self._core.checks.stale(known)
        hits = [
            Hit(
                memory,
                Parts(
                    words=1.0,
                    meaning=None,
                    **factors(memory, project=reader.project, now=now, is_stale=memory.id in stale),
                ),
                memory.id in stale,
            )
            for memory in known
            if reader.may_have(memory)
        ]
        hits.sort(key=lambda hit: (-hit.score, hit.memory.id))
        return hits[:limit]

    async def context(self, task: str, reader: Reader, max_tokens: int) -> Pack:
        """Choose memories for a task within a budget, and say what was left out and why."""
        return pack(await self.search(task, reader, 50), max_tokens)

    async def get(self, memory_id: str) -> Whole:
        """Return one memory of any status, with its evidence looked at."""
        memory, said, history = await self._core.database.read(
            lambda connection: (
                existing(connection, memory_id),
                queries.outcomes(connection, memory_id),
                queries.history(connection, memory_id, MAX_HISTORY),
            )
        )
        is_stale = await self._core.checks.is_stale(memory)
        return Whole(memory, is_stale, salience(memory, self._core.clock.now()), said, history)

    async def list(self, wanted: Filter, *, limit: int, offset: int) -> tuple[list[Memory], int]:
        """Return one page of memories of any status, and how many there are."""
        return await self._core.database.read(
            lambda connection: queries.listed(connection, wanted, limit=limit, offset=offset)
        )

    async def health(self) -> Health:
        """Count what there is, and name what needs a look."""
        counts, cited, flags = await self._core.database.read(
            lambda connection: (
                queries.counts(connection),
                queries.with_files(connection, MAX_CHECKED),
                {
                    name: queries.flagged(connection, name, _NAMED)
                    for name in ("contradicts", "near", "secrets", "review_wanted")
                },
            )
        )
        by_status: dict[str, int] = {}
        for status, _, count in counts:
            by_status[status] = by_status.get(status, 0) + count
        living = sum(count for status, _, count in counts if status in LIVING)
        stale = await self._core.checks.stale(cited)
        return Health(
            by_status=by_status,
            unvalidated=sum(
                count for status, trust, count in counts if (status, trust) == ("active", "agent")
            ),
            stale=tuple(sorted(stale)),
            stale_checked=len(cited),
            contradicted=flags["contradicts"],
            near_duplicates=flags["near"],
            secrets=flags["secrets"],
            review_wanted=flags["review_wanted"],
            duplicate_rate=flags["near"][1] / living if living else 0.0,
        )
