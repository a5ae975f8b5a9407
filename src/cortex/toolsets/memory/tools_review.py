"""Memory tools for review, sessions and proof: what needs a person, a session, or the ledger."""

import orjson

from cortex.errors import NotFound, SizeLimitExceeded
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import ToolCall
from cortex.toolsets.memory import answers, params
from cortex.toolsets.memory.calls import (
    CLOSE,
    COMMIT,
    MAX_EVENTS_BYTES,
    PROVE,
    READ,
    REVIEW,
    TOOLSET,
    Callers,
)
from cortex.toolsets.memory.extraction import SaidEvent
from cortex.toolsets.memory.files import project_of
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.notes import Draft
from cortex.toolsets.memory.sessions import role_of


def register(registry: ToolRegistry, memories: Memories, callers: Callers) -> None:
    """Declare them; called by tools.py."""
    _register_review(registry, memories, callers)
    _register_sessions(registry, memories, callers)
    _register_proof(registry, memories)


def _register_review(registry: ToolRegistry, memories: Memories, callers: Callers) -> None:
    review = memories.review

    async def accept(p: params.AcceptParams, call: ToolCall) -> answers.Changed:
        """Make a memory reviewed; a person approves, in their client or by a code."""
        done = await review.accept([p.id], callers.asked(call, p.code))
        return answers.Changed.of(done.memories[0])

    async def reject(p: params.RejectParams, call: ToolCall) -> answers.Changed:
        """End a memory; a reviewed one with a person's approval."""
        return answers.Changed.of(await review.reject(p.id, p.reason, callers.asked(call, p.code)))

    async def supersede(p: params.SupersedeParams, call: ToolCall) -> answers.NoteAnswer:
        """Replace a memory by a new claim; a reviewed one stands until a person accepts."""
        draft = Draft(claim=p.claim, evidence=params.evidence_of(p.evidence))
        noted = await review.supersede(p.id, draft, callers.asked(call, p.code))
        return answers.NoteAnswer.of(noted)

    registry.add(
        "cortex_memory_accept",
        accept,
        toolset=TOOLSET,
        params=params.AcceptParams,
        result=answers.Changed,
        policy=REVIEW,
    )
    registry.add(
        "cortex_memory_reject",
        reject,
        toolset=TOOLSET,
        params=params.RejectParams,
        result=answers.Changed,
        policy=REVIEW,
    )
    registry.add(
        "cortex_memory_supersede",
        supersede,
        toolset=TOOLSET,
        params=params.SupersedeParams,
        result=answers.NoteAnswer,
        policy=REVIEW,
    )


def _register_sessions(registry: ToolRegistry, memories: Memories, callers: Callers) -> None:
    async def close(p: params.CloseParams, call: ToolCall) -> answers.ClosedAnswer:
        """Extract candidates from a session's events by rule; an event id counts once."""
        size_bytes = len(orjson.dumps([event.model_dump() for event in p.events]))
        if size_bytes > MAX_EVENTS_BYTES:
            raise SizeLimitExceeded("The events", size_bytes=size_bytes, max_bytes=MAX_EVENTS_BYTES)
        actor = callers.actor(call)
        said = [SaidEvent(event.id, role_of(event.role), event.text) for event in p.events]
        return answers.ClosedAnswer.of(await memories.sessions.close(said, actor.project, actor))

    async def commit(p: params.CommitParams, call: ToolCall) -> answers.CommitAnswer:
        """Offer candidates by id: reviewed with a person's approval, else pending."""
        done = await memories.review.commit(p.ids, callers.asked(call, p.code))
        return answers.CommitAnswer.of(done)

    async def reflect(p: params.ReflectParams, call: ToolCall) -> answers.ReflectAnswer:
        """Show claims an ingested session supports, by rule. Never writes."""
        project = project_of(call.caller.cwd)
        return answers.ReflectAnswer.of(await memories.sessions.reflect(p.session, project))

    registry.add(
        "cortex_session_close",
        close,
        toolset=TOOLSET,
        params=params.CloseParams,
        result=answers.ClosedAnswer,
        policy=CLOSE,
    )
    registry.add(
        "cortex_session_commit",
        commit,
        toolset=TOOLSET,
        params=params.CommitParams,
        result=answers.CommitAnswer,
        policy=COMMIT,
    )
    registry.add(
        "cortex_reflect",
        reflect,
        toolset=TOOLSET,
        params=params.ReflectParams,
        result=answers.ReflectAnswer,
        policy=READ,
    )


def _register_proof(registry: ToolRegistry, memories: Memories) -> None:
    async def principles(p: params.PrinciplesParams, _call: ToolCall) -> answers.PrinciplesAnswer:
        """Principles: 3 or more reviewed memories of 2 or more domains that say the same."""
        found = await memories.principles()
        supported = [one for one in found if one.is_supported]
        candidates = [one for one in found if not one.is_supported]
        shown = {"list": supported, "candidates": candidates, "status": found}[p.view]
        if p.id:
            shown = [one for one in found if one.id == p.id]
            if not shown:
                raise NotFound("principle", p.id)
        elif p.view == "status":
            shown = []
        return answers.PrinciplesAnswer(
            supported=len(supported),
            candidates=len(candidates),
            principles=[answers.PrincipleOut.of(one) for one in shown[: p.limit]],
        )

    async def verify(_p: params.NoParams, _call: ToolCall) -> answers.ProofAnswer:
        """Prove that the ledger is unbroken and every memory is what it says."""
        return answers.ProofAnswer.of(await memories.prover.verify())

    registry.add(
        "cortex_principles",
        principles,
        toolset=TOOLSET,
        params=params.PrinciplesParams,
        result=answers.PrinciplesAnswer,
        policy=READ,
    )
    registry.add(
        "cortex_audit_verify",
        verify,
        toolset=TOOLSET,
        params=params.NoParams,
        result=answers.ProofAnswer,
        policy=PROVE,
    )
