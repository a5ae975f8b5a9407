"""Review: what becomes of memories on a person's word, one by one or many, by the same rules."""

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cortex.errors import Conflict, InvalidParams
from cortex.toolsets.memory import queries
from cortex.toolsets.memory.approval import Action, Approval, Approver, no_approval
from cortex.toolsets.memory.contradictions import opposition, statement
from cortex.toolsets.memory.core import Core, existing
from cortex.toolsets.memory.models import Actor, Evidence, Memory
from cortex.toolsets.memory.notes import Draft, Noted, Notes, clean_claim, clean_tags, is_order
from cortex.toolsets.memory.policy import Decision, Facts, Refused, Verdict, decide
from cortex.toolsets.memory.words import terms

log = logging.getLogger(__name__)

AUTO_COMMIT = "CORTEX_MCP_AUTO_COMMIT"
_ENDED = frozenset({"superseded", "rejected", "retired"})
_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who wants something approved, and how a person may be reached."""

    tool: str
    actor: Actor
    code: str = ""
    approver: Approver | None = None
    is_automatic: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of memories that a session offered."""

    memories: tuple[Memory, ...]
    is_approved: bool
    warnings: tuple[str, ...]


class Review:
    """Accepts, rejects, supersedes, edits and forgets."""

    def __init__(self, core: Core, notes: Notes) -> None:
        self._core = core
        self._notes = notes

    async def accept(self, ids: Sequence[str], asked: Asked) -> Committed:
        """Make memories reviewed, once the rules and a person have said yes to each of them."""
        memories = await self._core.some(ids)
        decisions = await self.judged(memories)
        self._refuse(asked.tool, decisions)
        approval = await self.approval("accept", memories, asked)
        if approval is None:
            raise no_approval(asked.tool, memories, reason="a person must approve it")
        return await self._accepted(memories, decisions, replace(asked.actor, via=approval.via))

    async def commit(self, ids: Sequence[str], asked: Asked) -> Committed:
        """Offer a session's candidates: reviewed with a person's yes, else pending until then."""
        memories = await self._core.some(ids)
        for memory in memories:
            if memory.status not in ("candidate", "pending"):
                raise Conflict(f"{memory.id} is {memory.status}, not a candidate")
        decisions = await self.judged(memories)
        self._refuse(asked.tool, decisions)
        approval = await self.approval("accept", memories, asked)
        if approval is not None:
            actor = replace(asked.actor, via=approval.via)
            return await self._accepted(memories, decisions, actor)

        def change(connection: sqlite3.Connection) -> tuple[Memory, ...]:
            return tuple(self._pending(connection, memory, asked.actor) for memory in memories)

        changed = await self._core.database.write(change)
        return Committed(changed, is_approved=False, warnings=_warnings(decisions))

    async def operator_accepts(self, memory_id: str, actor: Actor) -> Committed:
        """Accept what a person at a terminal looked at; only a hard no stands above them."""
        memories = await self._core.some([memory_id])
        decisions = await self.judged(memories)
        if any(decision.verdict >= Verdict.REJECT for decision in decisions):
            raise Refused("cortex memory review", decisions)
        return await self._accepted(memories, decisions, actor)

    async def reject(self, memory_id: str, reason: str, asked: Asked) -> Memory:
        """End a memory; one that was reviewed needs a person's yes."""
        (memory,) = await self._core.some([memory_id])
        actor = asked.actor
        if memory.trust == "reviewed" and actor.author != "operator":
            approval = await self.approval("reject", [memory], asked)
            if approval is None:
                raise no_approval(
                    asked.tool, [memory], reason="it was reviewed, a person must approve it"
                )
            actor = replace(actor, via=approval.via)
        return await self._ended(memory, "rejected", reason, actor)

    async def retire(self, memory_id: str, reason: str, actor: Actor) -> Memory:
        """End a memory that was true and is of no use any more."""
        (memory,) = await self._core.some([memory_id])
        return await self._ended(memory, "retired", reason, actor)

    async def supersede(self, memory_id: str, draft: Draft, asked: Asked) -> Noted:
        """Put a new claim in the place of an old one, which stays readable and linked.

        A reviewed memory stands until a person accepts the new one.
        """
        (old,) = await self._core.some([memory_id])
        if old.status in _ENDED:
            raise Conflict(f"{memory_id} is {old.status}: it has ended already")
        draft = replace(draft, supersedes=old.id, tags=draft.tags or old.tags, project=old.project)
        needs_yes = old.trust == "reviewed" and asked.actor.author != "operator"
        if needs_yes:
            draft = replace(draft, status="pending")
        noted = await self._notes.note(draft, asked.actor)
        if not noted.is_new:
            raise Conflict(f"the same claim is there already: {noted.memory.id}")
        if needs_yes:
            decisions = await self.judged([noted.memory])
            approval = (
                None
                if any(decision.is_refused for decision in decisions)
                else await self.approval("accept", [noted.memory], asked)
            )
            if approval is None:
                return noted
            actor = replace(asked.actor, via=approval.via)
            done = await self._accepted([noted.memory], decisions, actor)
            return replace(noted, memory=done.memories[0])
        await self._core.database.write(
            lambda connection: self._superseded(connection, noted.memory, asked.actor)
        )
        return noted

    async def edit(
        self, memory_id: str, claim: str, tags: Sequence[str] | None, actor: Actor
    ) -> Memory:
        """Let a person put a claim into better words."""
        words = clean_claim(claim)

        def change(connection: sqlite3.Connection) -> Memory:
            memory = existing(connection, memory_id)
            changed = replace(
                memory,
                claim=words,
                tags=memory.tags if tags is None else clean_tags(tags),
                secrets=tuple(sorted(self._core.find_secrets(words))),
                updated_at=self._core.now(),
            )
            return self._core.write(connection, "edited", changed, actor)

        return await self._core.database.write(change)

    async def forget(self, memory_id: str, actor: Actor) -> int:
        """Delete the words of a memory for good; the ledger keeps that it was. Returns its seq."""

        def change(connection: sqlite3.Connection) -> tuple[int, int]:
            memory = existing(connection, memory_id)
            row, _ = queries.place(connection, memory_id)
            return row, self._core.changes.forget(connection, memory, actor).seq

        row, seq = await self._core.database.write(change)
        if self._core.recall.vectors is not None:
            self._core.recall.vectors.drop(row)
        await self._core.database.read(queries.scrub)
        return seq

    async def approve(self, ids: Sequence[str], action: Action) -> str:
        """Make a one-time code for an action on exactly these memories."""
        if not ids:
            raise InvalidParams("name the memories to approve")

        def change(connection: sqlite3.Connection) -> str:
            memories = [existing(connection, memory_id) for memory_id in dict.fromkeys(ids)]
            return self._core.codes.issue(connection, action, memories)

        return await self._core.database.write(change)

    async def judged(self, memories: Sequence[Memory]) -> list[Decision]:
        """Ask every rule about every memory: many are judged exactly as one is."""
        decisions: list[Decision] = []
        for memory in memories:
            if memory.status in _ENDED:
                raise Conflict(f"{memory.id} is {memory.status}: it has ended already")
            opposed, rejected = await self._core.database.read(
                lambda connection, memory=memory: (
                    self._opposed(connection, memory),
                    [
                        other
                        for other in queries.same_claim(connection, memory.claim, memory.project)
                        if other.status == "rejected"
                    ],
                )
            )
            facts = Facts(
                memory=memory,
                opposed=opposed,
                rejected=rejected,
                is_stale=await self._core.checks.is_stale(memory),
                is_unfounded=await self._core.checks.is_unfounded(memory),
                is_order=is_order(memory.claim),
            )
            decisions.append(decide(facts))
        return decisions

    async def approval(
        self, action: Action, memories: Sequence[Memory], asked: Asked
    ) -> Approval | None:
        """Return how a person agreed to exactly these memories, or None if nobody was asked."""
        if asked.is_automatic:
            # The name is stable: people look for it in logs.
            log.warning(
                "memory.auto_commit: %s of %d memories without a person", action, len(memories)
            )
            return Approval("auto-commit")
        if asked.code:
            is_valid = await self._core.database.write(
                lambda connection: self._core.codes.redeem(connection, asked.code, action, memories)
            )
            if not is_valid:
                raise no_approval(
                    asked.tool,
                    memories,
                    reason="the code is not one for exactly these memories, or was used, or is old",
                )
            return Approval("code")
        if asked.approver is None:
            return None
        answer = await asked.approver.approve(_question(action, memories))
        if answer is None:
            return None
        if not answer:
            raise no_approval(asked.tool, memories, reason="the person said no")
        return Approval("elicitation")

    def _refuse(self, tool: str, decisions: Sequence[Decision]) -> None:
        refused = [decision for decision in decisions if decision.is_refused]
        if refused:
            raise Refused(tool, refused)

    def _opposed(self, connection: sqlite3.Connection, memory: Memory) -> list[Memory]:
        rows, _ = self._core.recall.similar(connection, terms(memory.claim))
        said = statement(memory.claim)
        return [
            other
            for other in queries.by_rows(connection, rows).values()
            if other.id not in (memory.id, memory.supersedes)
            and other.is_recalled
            and other.trust == "reviewed"
            and other.project in ("", memory.project)
            and opposition(said, statement(other.claim))
        ]

    async def _accepted(
        self, memories: Sequence[Memory], decisions: Sequence[Decision], actor: Actor
    ) -> Committed:
        def change(connection: sqlite3.Connection) -> tuple[Memory, ...]:
            return tuple(self._accept_one(connection, memory, actor) for memory in memories)

        changed = await self._core.database.write(change)
        return Committed(changed, is_approved=True, warnings=_warnings(decisions))

    def _accept_one(self, connection: sqlite3.Connection, seen: Memory, actor: Actor) -> Memory:
        memory = existing(connection, seen.id)
        if memory != seen:
            raise Conflict(f"{seen.id} changed while it was approved", hint="look at it again")
        now = self._core.now()
        accepted = replace(
            memory,
            status="active",
            trust="reviewed",
            reviewed_at=now,
            review_at=None,
            review_wanted="",
            reason="",
            updated_at=now,
        )
        self._core.write(connection, "accepted", accepted, actor)
        if accepted.supersedes:
            self._superseded(connection, accepted, actor)
        return accepted

    def _superseded(self, connection: sqlite3.Connection, new: Memory, actor: Actor) -> None:
        old = queries.by_id(connection, str(new.supersedes))
        if old is None or old.status in _ENDED:
            return
        ended = replace(old, status="superseded", superseded_by=new.id, updated_at=self._core.now())
        self._core.write(connection, "superseded", ended, actor)

    def _pending(self, connection: sqlite3.Connection, seen: Memory, actor: Actor) -> Memory:
        memory = existing(connection, seen.id)
        if memory.status == "pending":
            return memory
        changed = replace(memory, status="pending", updated_at=self._core.now())
        return self._core.write(connection, "committed", changed, actor)

    async def _ended(self, seen: Memory, status: str, reason: str, actor: Actor) -> Memory:
        def change(connection: sqlite3.Connection) -> Memory:
            memory = existing(connection, seen.id)
            if memory.status in _ENDED:
                raise Conflict(f"{seen.id} is {memory.status}: it has ended already")
            ended = replace(
                memory,
                status="rejected" if status == "rejected" else "retired",
                reason=clean_claim(reason),
                review_wanted="",
                updated_at=self._core.now(),
            )
            return self._core.write(connection, status, ended, actor)

        return await self._core.database.write(change)


def _question(action: Action, memories: Sequence[Memory]) -> str:
    """Return what the person is asked, with every claim in it."""
    lines = [f"{action.capitalize()} {len(memories)} memories of Cortex as reviewed?"]
    if action == "reject":
        lines = [f"Reject {len(memories)} reviewed memories of Cortex?"]
    for memory in memories:
        lines.append(f"{memory.id}: {memory.claim[:_SHOWN_CHARS]}")
        lines += [f"   shown by {_shown(item)}" for item in memory.evidence[:3]]
        if memory.supersedes:
            lines.append(f"   takes the place of {memory.supersedes}")
    return "\n".join(lines)


def _shown(item: Evidence) -> str:
    return f"{item.kind} {item.ref[:80]}" + (f":{item.start}-{item.end}" if item.start else "")


def _warnings(decisions: Sequence[Decision]) -> tuple[str, ...]:
    return tuple(
        f"{decision.memory_id} {warning}" for decision in decisions for warning in decision.warnings
    )
