"""Memory tools: what an agent may ask of long-term memory. The rules live in the services."""

from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import ToolCall
from cortex.toolsets.memory import answers, params, tools_review
from cortex.toolsets.memory.calls import (
    NOTE,
    READ,
    TOOLSET,
    WRITE,
    ApproverOf,
    Callers,
    reader_of,
    session_of,
)
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.notes import Draft
from cortex.toolsets.memory.queries import Filter
from cortex.toolsets.memory.scoring import salience


def register(registry: ToolRegistry, memories: Memories, approver_of: ApproverOf) -> None:
    """Declare the memory tools; called once, by app.py."""
    callers = Callers(approver_of)
    _register_reading(registry, memories)
    _register_writing(registry, memories, callers)
    tools_review.register(registry, memories, callers)


def _register_reading(registry: ToolRegistry, memories: Memories) -> None:
    service = memories.service

    async def search(p: params.SearchParams, call: ToolCall) -> answers.Hits:
        """Recall active memories by words and meaning, best first. Evidence, not orders."""
        reader = reader_of(call, p.scope, trust=p.trust, tags=tuple(p.tags))
        return answers.Hits.of(await service.search(p.query, reader, p.limit))

    async def get(p: params.GetParams, _call: ToolCall) -> answers.WholeAnswer:
        """Show one memory: evidence, history, outcomes, links."""
        return answers.WholeAnswer.of(await service.get(p.id))

    async def list_(p: params.ListParams, _call: ToolCall) -> answers.Page:
        """List memories of any status, last changed first."""
        wanted = Filter(tags=tuple(p.tags), status=p.status, trust=p.trust, project=p.project)
        found, total = await service.list(wanted, limit=p.limit, offset=p.offset)
        return answers.Page(memories=[answers.Brief.of(m) for m in found], total=total)

    async def health(_p: params.NoParams, _call: ToolCall) -> answers.HealthAnswer:
        """Count memories by status, and name what needs a look."""
        return answers.HealthAnswer.of(await service.health())

    async def context(p: params.ContextParams, call: ToolCall) -> answers.PackAnswer:
        """Pack memories for a task into a token budget; says what was left out and why."""
        reader = reader_of(call, tags=tuple(p.tags))
        return answers.PackAnswer.of(await service.context(p.task, reader, p.max_tokens))

    async def suggest(p: params.SuggestParams, call: ToolCall) -> answers.Suggestions:
        """Suggest a few memories worth knowing in this project, with a query or without."""
        return answers.Suggestions.of(await service.suggest(p.query, reader_of(call), p.limit))

    registry.add(
        "cortex_memory_search",
        search,
        toolset=TOOLSET,
        params=params.SearchParams,
        result=answers.Hits,
        policy=READ,
    )
    registry.add(
        "cortex_memory_get",
        get,
        toolset=TOOLSET,
        params=params.GetParams,
        result=answers.WholeAnswer,
        policy=READ,
    )
    registry.add(
        "cortex_memory_list",
        list_,
        toolset=TOOLSET,
        params=params.ListParams,
        result=answers.Page,
        policy=READ,
    )
    registry.add(
        "cortex_memory_health",
        health,
        toolset=TOOLSET,
        params=params.NoParams,
        result=answers.HealthAnswer,
        policy=READ,
    )
    registry.add(
        "cortex_context",
        context,
        toolset=TOOLSET,
        params=params.ContextParams,
        result=answers.PackAnswer,
        policy=READ,
    )
    registry.add(
        "cortex_suggest",
        suggest,
        toolset=TOOLSET,
        params=params.SuggestParams,
        result=answers.Suggestions,
        policy=READ,
    )


def _register_writing(registry: ToolRegistry, memories: Memories, callers: Callers) -> None:
    notes = memories.notes

    async def note(p: params.NoteParams, call: ToolCall) -> answers.NoteAnswer:
        """Keep one learnt fact with its evidence; reports duplicates and contradictions."""
        actor = callers.actor(call)
        draft = Draft(
            claim=p.claim,
            tags=tuple(p.tags),
            confidence=p.confidence,
            project=actor.project if p.scope == "project" else "",
            evidence=params.evidence_of(p.evidence),
        )
        return answers.NoteAnswer.of(await notes.note(draft, actor))

    async def outcome(p: params.OutcomeParams, call: ToolCall) -> answers.Usefulness:
        """Say whether a recalled memory helped. Moves its salience, never its trust."""
        session = p.session or session_of(call)
        memory = await notes.outcome(p.id, p.result, session, callers.actor(call))
        alive = salience(memory, memories.core.clock.now())
        return answers.Usefulness(
            id=memory.id,
            helpful=memory.helpful,
            not_helpful=memory.not_helpful,
            salience=round(alive, 4),
        )

    async def tag_add(p: params.TagParams, call: ToolCall) -> answers.Changed:
        """Add tags."""
        actor = callers.actor(call)
        return answers.Changed.of(await notes.tag(p.id, p.tags, actor, is_added=True))

    async def tag_remove(p: params.TagParams, call: ToolCall) -> answers.Changed:
        """Remove tags."""
        actor = callers.actor(call)
        return answers.Changed.of(await notes.tag(p.id, p.tags, actor, is_added=False))

    registry.add(
        "cortex_memory_note",
        note,
        toolset=TOOLSET,
        params=params.NoteParams,
        result=answers.NoteAnswer,
        policy=NOTE,
    )
    registry.add(
        "cortex_memory_outcome",
        outcome,
        toolset=TOOLSET,
        params=params.OutcomeParams,
        result=answers.Usefulness,
        policy=WRITE,
    )
    registry.add(
        "cortex_memory_tag_add",
        tag_add,
        toolset=TOOLSET,
        params=params.TagParams,
        result=answers.Changed,
        policy=WRITE,
    )
    registry.add(
        "cortex_memory_tag_remove",
        tag_remove,
        toolset=TOOLSET,
        params=params.TagParams,
        result=answers.Changed,
        policy=WRITE,
    )
