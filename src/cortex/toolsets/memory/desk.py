"""The operator's desk: what a person's commands ask of memory, beside what agents may.

A command says whether a person sits at a terminal. What comes without one is an agent's.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from cortex.gateway.arguments import validate
from cortex.gateway.spec import Params
from cortex.toolsets.memory import params, queries
from cortex.toolsets.memory.answers import (
    Brief,
    CommitAnswer,
    NoteAnswer,
    ProofAnswer,
    WholeAnswer,
)
from cortex.toolsets.memory.approval import VALID_S, Action
from cortex.toolsets.memory.contradictions import opposition, statement
from cortex.toolsets.memory.files import project_of
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.models import Actor, Memory, OutcomeResult
from cortex.toolsets.memory.notes import Draft
from cortex.toolsets.memory.queries import Filter
from cortex.toolsets.memory.review import Asked
from cortex.toolsets.memory.words import terms

Tell = Callable[[Mapping[str, Any]], None]
Command = Callable[[Mapping[str, Any], Tell], Awaitable[Mapping[str, Any]]]
P = TypeVar("P", bound=Params)
_CLI = "cortex-cli"


class NoteOrder(params.NoteParams):
    cwd: str | None = None
    is_person: bool = False


class QueueOrder(Params):
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    offset: Annotated[int, Field(ge=0)] = 0


class DecideOrder(Params):
    id: params.Id
    decision: Literal["accept", "reject", "retire", "edit"]
    text: Annotated[str, Field(max_length=2000)] = ""
    is_person: bool = False


class ApproveOrder(Params):
    ids: params.Ids
    action: Action = "accept"
    is_person: bool = False


class OutcomeOrder(Params):
    id: params.Id
    result: OutcomeResult


class ForgetOrder(Params):
    id: params.Id


class DecayOrder(Params):
    dry_run: bool = False


class VerifyOrder(Params):
    rebuild: bool = False


class PathOrder(Params):
    path: Annotated[str, Field(min_length=1, max_length=4096)]


class Desk:
    """Obeys the commands of `cortex memory`."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    def commands(self) -> dict[str, Command]:
        """Return every command by the name it is asked for."""
        return {
            "memory.note": _command(NoteOrder, self._note),
            "memory.queue": _command(QueueOrder, self._queue),
            "memory.decide": _command(DecideOrder, self._decide),
            "memory.approve": _command(ApproveOrder, self._approve),
            "memory.outcome": _command(OutcomeOrder, self._outcome),
            "memory.forget": _command(ForgetOrder, self._forget),
            "memory.decay": _command(DecayOrder, self._decay),
            "memory.verify": _command(VerifyOrder, self._verify),
            "memory.export": _command(PathOrder, self._export),
            "memory.import": _command(PathOrder, self._import),
        }

    async def _note(self, order: NoteOrder) -> Mapping[str, Any]:
        project = project_of(order.cwd)
        draft = Draft(
            claim=order.claim,
            tags=tuple(order.tags),
            confidence=order.confidence,
            project=project if order.scope == "project" else "",
            evidence=params.evidence_of(order.evidence),
        )
        noted = await self._memories.notes.note(draft, _actor(project, is_person=order.is_person))
        return NoteAnswer.of(noted).to_data()

    async def _queue(self, order: QueueOrder) -> Mapping[str, Any]:
        """Return what waits for a person, each with what resembles and what contradicts it."""
        found, total = await self._memories.service.list(
            Filter(review_wanted=True), limit=order.limit, offset=order.offset
        )
        return {"waiting": [await self._shown(memory) for memory in found], "total": total}

    async def _shown(self, memory: Memory) -> dict[str, Any]:
        whole = await self._memories.service.get(memory.id)
        others = await self._memories.core.database.read(
            lambda connection: queries.by_rows(
                connection,
                self._memories.core.recall.similar(connection, terms(memory.claim))[0],
            )
        )
        said = statement(memory.claim)
        similar: list[dict[str, Any]] = []
        for other in others.values():
            if other.id != memory.id:
                how = opposition(said, statement(other.claim))
                similar.append({**Brief.of(other).model_dump(), "how": how or "similar"})
        return {
            **WholeAnswer.of(whole).to_data(),
            "review_wanted": memory.review_wanted,
            "similar": similar,
        }

    async def _decide(self, order: DecideOrder) -> Mapping[str, Any]:
        actor = _actor("", is_person=order.is_person)
        review = self._memories.review
        if order.decision == "accept":
            if order.is_person:
                return CommitAnswer.of(await review.operator_accepts(order.id, actor)).to_data()
            asked = Asked(tool="cortex memory review", actor=actor)
            return CommitAnswer.of(await review.accept([order.id], asked)).to_data()
        if order.decision == "edit":
            return Brief.of(await review.edit(order.id, order.text, None, actor)).model_dump()
        if order.decision == "retire":
            return Brief.of(await review.retire(order.id, order.text, actor)).model_dump()
        asked = Asked(tool="cortex memory review", actor=actor)
        return Brief.of(await review.reject(order.id, order.text, asked)).model_dump()

    async def _approve(self, order: ApproveOrder) -> Mapping[str, Any]:
        memories = await self._memories.core.some(order.ids)
        code = await self._memories.review.approve(order.ids, order.action)
        shown = [Brief.of(memory).model_dump() for memory in memories]
        return {"code": code, "valid_s": VALID_S, "action": order.action, "memories": shown}

    async def _outcome(self, order: OutcomeOrder) -> Mapping[str, Any]:
        actor = _actor("", is_person=True)
        memory = await self._memories.notes.outcome(order.id, order.result, "operator", actor)
        return {"id": memory.id, "helpful": memory.helpful, "not_helpful": memory.not_helpful}

    async def _forget(self, order: ForgetOrder) -> Mapping[str, Any]:
        record = await self._memories.review.forget(order.id, _actor("", is_person=True))
        return {"id": order.id, "record": record}

    async def _decay(self, order: DecayOrder) -> Mapping[str, Any]:
        found = await self._memories.upkeep.decay(is_dry=order.dry_run)
        return {
            "seen": found.seen,
            "quarantined": list(found.quarantined),
            "review_wanted": list(found.review_wanted),
            "dry_run": order.dry_run,
        }

    async def _verify(self, order: VerifyOrder) -> Mapping[str, Any]:
        if order.rebuild:
            await self._memories.prover.rebuild()
        return ProofAnswer.of(await self._memories.prover.verify()).to_data()

    async def _export(self, order: PathOrder) -> Mapping[str, Any]:
        return {"path": order.path, "records": await self._memories.exchange.export(order.path)}

    async def _import(self, order: PathOrder) -> Mapping[str, Any]:
        done = await self._memories.exchange.load(order.path)
        return {"records": done.records, "memories": done.memories, "known": done.known}


def _actor(project: str, *, is_person: bool) -> Actor:
    if is_person:
        return Actor(author="operator", via="terminal", client=_CLI, project=project)
    return Actor(author="agent", via="agent", client=_CLI, session=_CLI, project=project)


def _command(model: type[P], work: Callable[[P], Awaitable[Mapping[str, Any]]]) -> Command:
    async def obey(arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        return await work(validate(model, arguments))

    return obey
