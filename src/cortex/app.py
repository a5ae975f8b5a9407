"""The composition root: settings in, a wired App out. The only module that knows every part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex.clock import Clock, IdSource, RandomIds, SystemClock
from cortex.embedding.choice import Providers, options_of
from cortex.embedding.provider import Provider
from cortex.gateway.audit import AuditTrail
from cortex.gateway.cache import Generations, ResultCache
from cortex.gateway.limits import RateLimiter
from cortex.gateway.pipeline import Limits, Pipeline
from cortex.gateway.policy import Authorizer, read_policies, shipped_policies
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import RateLimit
from cortex.home import Home
from cortex.settings.models import Settings
from cortex.state.calls import CallLog
from cortex.state.database import Database, MovedAside, open_or_move_aside
from cortex.state.journal import Journal
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import migrate
from cortex.toolsets.code import tools as code_tools
from cortex.toolsets.code.filling import VectorFiller
from cortex.toolsets.code.service import CodeService
from cortex.toolsets.conversations import tools as conversations_tools
from cortex.toolsets.conversations.forget import Forgetter
from cortex.toolsets.conversations.forget_queries import ForgetQueries
from cortex.toolsets.conversations.ingest.service import IngestService
from cortex.toolsets.conversations.output import OutputCleaner
from cortex.toolsets.conversations.past import PastSessions
from cortex.toolsets.conversations.queries import ConversationQueries
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.search_log import SearchLog
from cortex.toolsets.conversations.service import ConversationsService, Found, Search
from cortex.toolsets.conversations.session_queries import SessionQueries
from cortex.toolsets.conversations.sessions import SessionsService
from cortex.toolsets.memory import tools as memory_tools
from cortex.toolsets.memory.core import Core, Rules
from cortex.toolsets.memory.evidence import EvidenceCheck
from cortex.toolsets.memory.files import ProjectFiles
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.operations import tools as operations_tools
from cortex.toolsets.operations.models import ServiceStatus
from cortex.toolsets.operations.service import CpuHistory, OperationsService

Services = Callable[[], Sequence[ServiceStatus]]
Extension = Callable[[ToolRegistry], None]
"""Registers more tools: how tests put one of their own behind the same door."""


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Every part of a running Cortex, by name."""

    clock: Clock
    ids: IdSource
    engine: Engine
    journal: Journal
    audit: AuditTrail
    pipeline: Pipeline
    cpu_history: CpuHistory
    ingest: IngestService
    sessions: SessionsService
    search_log: SearchLog
    forgetter: Forgetter
    providers: Providers
    code: CodeService
    vectors: VectorFiller
    memories: Memories
    notices: tuple[str, ...]
    _databases: tuple[Database, ...]

    async def close(self) -> None:
        """Close what was opened, the store last."""
        for database in self._databases:
            database.close()
        self.journal.close()
        await self.providers.close()
        await self.engine.close()


async def build(
    settings: Settings,
    home: Home,
    *,
    services: Services,
    engine: Engine | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    extensions: Sequence[Extension] = (),
) -> App:
    """Open the store and the state, and wire everything; raises one clear error if it cannot."""
    clock = clock or SystemClock()
    ids = ids or RandomIds()
    cpu_history = CpuHistory(clock)
    engine = engine or await open_engine(settings.clickhouse)
    try:
        await migrate(engine, cluster=settings.clickhouse.cluster)
        conversations = ConversationsService(
            ConversationQueries(engine),
            settings.bm25,
            clock,
            ids,
            preview_chars=settings.mcp.preview_chars,
        )
        redactor = Redactor(settings.redaction)
        search_log = SearchLog(
            engine,
            redactor,
            clock,
            is_async=settings.mcp.async_log_writes,
            max_terms=settings.bm25.max_query_terms,
        )
        ingest = IngestService(
            engine,
            settings.ingest,
            redactor,
            clock,
            conversations.forget_statistics,
        )
        providers = Providers(options_of(settings.embedding), Path(home.root) / "vectors.db")
        code = CodeService(
            clock, providers.of_session, allow_words_only=settings.embedding.allow_words_only
        )
        state_db, moved_state = open_or_move_aside(home.state_db, clock)
        memories = open_memories(
            settings,
            state_db,
            clock,
            ids,
            past=PastSessions(engine),
            embedder=providers.of_session({}),
            moved=moved_state,
        )
        registry = tool_registry(
            settings,
            OperationsService(clock, cpu_history, services),
            conversations,
            code,
            memories,
            coverage=lambda: coverage_of(ingest),
            note=search_log.note,
            extensions=extensions,
        )
        policies = [shipped_policies(), *read_policies(settings.policy.files)]
        authorizer = Authorizer(registry, policies)
    except BaseException:
        await engine.close()
        raise
    journal, moved_audit = Journal.open(home.audit_db, "audit", clock, ids)
    # The calls of the last seconds need to outlive us, not a power cut.
    limits_db, moved_limits = open_or_move_aside(home.limits_db, clock, durability="OFF")
    audit = AuditTrail(journal)
    forgetter = Forgetter(
        ForgetQueries(engine),
        ingest,
        journal,
        clock,
        ids,
        write_logs=search_log.write,
        on_change=conversations.forget_statistics,
        is_cluster=settings.clickhouse.cluster is not None,
    )
    pipeline = Pipeline(
        registry,
        authorizer=authorizer,
        limiter=RateLimiter(CallLog(limits_db, clock)),
        cache=ResultCache(clock),
        generations=Generations(),
        audit=audit,
        limits=_limits(settings),
        clock=clock,
        ids=ids,
    )
    notices = tuple(
        f"{moved.path}: the damaged file was moved here ({moved.reason}) and a new one begun"
        for moved in (moved_audit, moved_limits, moved_state)
        if moved
    )
    if providers.notice:
        notices += (providers.notice,)
    return App(
        clock=clock,
        ids=ids,
        engine=engine,
        journal=journal,
        audit=audit,
        pipeline=pipeline,
        cpu_history=cpu_history,
        ingest=ingest,
        sessions=SessionsService(SessionQueries(engine), redactor),
        search_log=search_log,
        forgetter=forgetter,
        providers=providers,
        code=code,
        vectors=VectorFiller(clock, lambda: code.projects, providers.of_session({})),
        memories=memories,
        notices=notices,
        _databases=(limits_db, state_db),
    )


def tool_registry(
    settings: Settings,
    operations: OperationsService,
    conversations: ConversationsService,
    code: CodeService,
    memories: Memories,
    *,
    coverage: Callable[[], dict[str, Any]],
    note: conversations_tools.Note | None = None,
    extensions: Sequence[Extension] = (),
) -> ToolRegistry:
    """Return every tool, registered."""
    registry = ToolRegistry()
    conversations_tools.register(
        registry,
        conversations,
        mcp=settings.mcp,
        bm25=settings.bm25,
        coverage=coverage,
        output=OutputCleaner(
            Redactor(settings.redaction), preview_chars=settings.mcp.preview_chars
        ),
        note=note or _note_nothing,
    )
    code_tools.register(registry, code)
    memory_tools.register(registry, memories, lambda call: call.caller.approver)
    operations_tools.register(registry, operations)
    for register in extensions:
        register(registry)
    return registry


async def _note_nothing(found: Found, wanted: Search, source: str) -> None:
    """Remember no search: where tools are declared, not run."""
    del found, wanted, source


def open_memories(
    settings: Settings,
    database: Database,
    clock: Clock,
    ids: IdSource,
    *,
    past: PastSessions | None = None,
    embedder: Provider | None = None,
    moved: MovedAside | None = None,
) -> Memories:
    """Return memory on its tables, which are made if they are missing."""
    redactor = Redactor(settings.redaction)
    core = Core(
        database=database,
        clock=clock,
        ids=ids,
        checks=EvidenceCheck(files=ProjectFiles(), conversations=past),
        embedder=embedder,
        find_secrets=lambda text: sorted(redactor.redact(text).counts),
        rules=Rules(
            review_after_days=settings.memory.review_after_days,
            decay_every_s=settings.memory.decay_interval_hours * 3600,
        ),
    )
    core.open(moved.path if moved else None)
    return Memories(core)


def coverage_of(ingest: IngestService) -> dict[str, Any]:
    """Return how much of the known session files can be found, as an answer says it."""
    known = ingest.coverage()
    return {
        "complete": not known.is_reading,
        "files_known": known.files_known,
        "files_done": known.files_done,
        "bytes_known": known.bytes_known,
        "bytes_done": known.bytes_done,
    }


def _limits(settings: Settings) -> Limits:
    limits = settings.limits
    return Limits(
        rate=RateLimit(limits.calls, limits.window_seconds),
        timeout_s=limits.call_timeout_seconds,
        max_input_bytes=limits.max_request_bytes,
        max_result_bytes=limits.max_result_bytes,
    )
