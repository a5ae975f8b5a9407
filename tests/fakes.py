"""Parts that a test holds in its hand, and the real gateway built around them."""

import contextlib
import tempfile
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from cortex.app import Extension, open_memories, tool_registry
from cortex.errors import Unavailable
from cortex.gateway.audit import AuditTrail
from cortex.gateway.cache import Generations, ResultCache
from cortex.gateway.limits import RateLimiter
from cortex.gateway.pipeline import Limits, Pipeline
from cortex.gateway.policy import Authorizer, PolicyText, shipped_policies
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import (
    Caller,
    Gate,
    Params,
    Policy,
    RateLimit,
    Result,
    ToolCall,
)
from cortex.settings.models import Settings
from cortex.state.calls import CallLog
from cortex.state.database import Database
from cortex.state.journal import Journal
from cortex.toolsets.code.project import Reloads
from cortex.toolsets.code.service import Asked, CodeService
from cortex.toolsets.code.service import Found as FoundCode
from cortex.toolsets.conversations.service import ConversationsService, Found, Search, Window
from cortex.toolsets.operations.service import CpuHistory, OperationsService

ALICE = Caller(principal="uid:1000", client="claude-code 2.0", session_id="s1")
WRITER = Caller(principal="uid:1000", client="claude-code 2.0", allow_mutations=True)

LIMITS = Limits(
    rate=RateLimit(50, 10.0), timeout_s=5.0, max_input_bytes=10_000, max_result_bytes=100_000
)


READS = Policy(gates=frozenset({Gate.SYSTEM_READ}))
WRITES = Policy(
    gates=frozenset({Gate.SYSTEM_MUTATE}), mutates=True, safe_fields=frozenset({"text"})
)


class Say(Params):
    text: str = ""
    times: Annotated[int, Field(ge=1, le=9)] = 1
    secret: str = ""


class Said(Result):
    text: str


Work = Callable[[Say, ToolCall], Awaitable[Said]]


def registry_of(*tools: tuple[str, Work, Policy], toolset: str = "test") -> ToolRegistry:
    """Return a registry of tools that all take `Say` and answer `Said`."""
    registry = ToolRegistry()
    for name, work, policy in tools:
        _add(registry, name, work, policy, toolset)
    return registry


def _add(registry: ToolRegistry, name: str, work: Work, policy: Policy, toolset: str) -> None:
    async def handler(params: Say, call: ToolCall) -> Said:
        """Do what the test wants."""
        return await work(params, call)

    registry.add(name, handler, toolset=toolset, params=Say, result=Said, policy=policy)


async def say(params: Say, _call: ToolCall) -> Said:
    """Say it back."""
    return Said(text=params.text * params.times)


class FakeClock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.wall = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
        self.elapsed_s = 1000.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.elapsed_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += timedelta(seconds=seconds)
        self.elapsed_s += seconds

    def set_back(self, seconds: float) -> None:
        """Correct the wall clock, as an operator or NTP does; no less time has passed."""
        self.wall -= timedelta(seconds=seconds)


class CountedIds:
    """Identifiers in a row."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"id-{self.count}"


class BrittleJournal:
    """A journal whose disk fails for the kinds of record it is told to fail for."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.fails_on: set[str] = set()
        self.on_append: Callable[[str], None] = lambda _kind: None

    async def append(self, kind: str, body: Mapping[str, Any]) -> None:
        self.on_append(kind)
        if kind in self.fails_on:
            raise Unavailable("the disk is full")
        await self.journal.append(kind, body)


@dataclass(kw_only=True)
class Gateway:
    """The real pipeline on real SQLite and real Cedar, with a clock one can move."""

    pipeline: Pipeline
    journal: Journal
    brittle: BrittleJournal
    audit: AuditTrail
    generations: Generations
    clock: FakeClock
    calls_db: Database
    _seen: int = field(default=1)  # the first record says that the chain was created

    async def call(self, tool: str, arguments: object = None, caller: Caller = ALICE) -> Any:
        """Run a call and return its answer."""
        return await self.pipeline.call(tool, arguments, caller)

    async def new_records(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return kind and body of what was written down since the last time."""
        records = await self.journal.after(self._seen, 10_000)
        self._seen += len(records)
        return [(record.kind, record.body) for record in records]


@contextlib.asynccontextmanager
async def open_gateway(
    folder: Path,
    registry: ToolRegistry,
    *,
    policies: Sequence[str] = (),
    limits: Limits = LIMITS,
    clock: FakeClock | None = None,
    cache_bytes: int = 1_000_000,
) -> AsyncGenerator[Gateway]:
    """Wire a gateway as app.py does, its files in the folder."""
    clock = clock or FakeClock()
    ids = CountedIds()
    texts = [PolicyText(f"operator{n}.cedar", text) for n, text in enumerate(policies)]
    authorizer = Authorizer(registry, [shipped_policies(), *texts])
    journal, _ = Journal.open(str(folder / "audit.db"), "audit", clock, ids)
    calls_db = Database.open(str(folder / "limits.db"), durability="OFF")
    brittle = BrittleJournal(journal)
    audit, generations = AuditTrail(brittle), Generations()
    pipeline = Pipeline(
        registry,
        authorizer=authorizer,
        limiter=RateLimiter(CallLog(calls_db, clock)),
        cache=ResultCache(clock, cache_bytes),
        generations=generations,
        audit=audit,
        limits=limits,
        clock=clock,
        ids=ids,
    )
    try:
        yield Gateway(
            pipeline=pipeline,
            journal=journal,
            brittle=brittle,
            audit=audit,
            generations=generations,
            clock=clock,
            calls_db=calls_db,
        )
    finally:
        journal.close()
        calls_db.close()


class NoConversations:
    """Conversations of which there are none: for tests that have no store."""

    async def search(self, wanted: Search) -> Found:
        return Found("q", wanted.query, (), 0, 1.0, 0.0)

    async def open(
        self, event_uid: str, before: int, after: int, *, with_records: bool = False
    ) -> Window:
        del with_records
        return Window(event_uid, before, after)


class NoCode:
    """A project without chunks: for tests that have no files."""

    async def search(self, asked: Asked) -> FoundCode:
        del asked
        return FoundCode(
            hits=(),
            terms=(),
            chunks=0,
            chunks_with_vectors=0,
            model="",
            words_only="",
            reloads=Reloads(),
            problems=(),
            took_ms=0.0,
        )


def _new_database() -> Database:
    """Return a file that is gone from its folder and lives as long as its connection."""
    folder = tempfile.TemporaryDirectory(prefix="cx-")
    database = Database.open(str(Path(folder.name) / "state.db"))
    weakref.finalize(database, folder.cleanup)
    return database


def every_tool(clock: FakeClock, *extensions: Extension) -> ToolRegistry:
    """Return the real registry; its CPU history is long enough that no call has to wait."""
    history = CpuHistory(clock)
    conversations = cast("ConversationsService", NoConversations())
    registry = tool_registry(
        Settings(),
        OperationsService(clock, history, tuple),
        conversations,
        cast("CodeService", NoCode()),
        open_memories(Settings(), _new_database(), clock, CountedIds()),
        coverage=lambda: {"complete": True},
        extensions=extensions,
    )
    clock.advance(1000)
    return registry
