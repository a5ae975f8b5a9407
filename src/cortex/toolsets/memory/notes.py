"""Writing memories: notes with their duplicates and contradictions, tags, outcomes."""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from cortex.clock import iso_utc
from cortex.errors import Conflict, InvalidParams
from cortex.toolsets.memory import queries, vectors
from cortex.toolsets.memory.contradictions import Opposition, opposition, statement
from cortex.toolsets.memory.core import Core, existing
from cortex.toolsets.memory.duplicates import is_near, overlap
from cortex.toolsets.memory.models import (
    LIVING,
    MAX_CLAIM_CHARS,
    MAX_EVIDENCE,
    MAX_TAGS,
    Actor,
    Evidence,
    Memory,
    Outcome,
    OutcomeResult,
    Status,
    moment,
)
from cortex.toolsets.memory.policy import Facts, Refused, Verdict, decide
from cortex.toolsets.memory.scoring import Usage
from cortex.toolsets.memory.vectors import Floats
from cortex.toolsets.memory.words import terms

_COMPARED = 8
NOTE_TOOL = "cortex_memory_note"
_TAG = re.compile(r"[\w][\w./:+-]{0,63}")
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|all)\b.{0,40}"
    r"\b(?:instructions?|rules?|prompts?)\b"
    r"|\byou are now (?:an? |the |in )?[\w ]{0,30}(?:mode|assistant|AI)\b"
    r"|</?(?:system|assistant|tool)[^>]*>",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A claim that is to be kept."""

    claim: str
    tags: tuple[str, ...] = ()
    confidence: float = 0.8
    project: str = ""
    evidence: tuple[Evidence, ...] = ()
    status: Status = "active"
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A memory that cannot hold together with the new one."""

    memory: Memory
    how: Opposition


@dataclass(frozen=True, slots=True)
class Noted:
    """What became of a note."""

    memory: Memory
    is_new: bool
    near: tuple[Memory, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    warnings: tuple[str, ...] = ()


class Notes:
    """Writes claims and what happens to them short of review."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def note(self, draft: Draft, actor: Actor) -> Noted:
        """Keep one claim; the same claim once more strengthens the one that is there."""
        draft = replace(
            draft,
            claim=clean_claim(draft.claim),
            tags=clean_tags(draft.tags),
            evidence=await self._core.checks.checked(draft.evidence, draft.project),
        )
        vector = await self._core.vector(draft.claim, is_query=False)
        return await self._core.database.write(
            lambda connection: self.write(connection, draft, actor, vector)
        )

    def write(
        self, connection: sqlite3.Connection, draft: Draft, actor: Actor, vector: Floats | None
    ) -> Noted:
        """Do the same inside a transaction, with everything looked up before."""
        same = queries.same_claim(connection, draft.claim, draft.project)
        living = next((memory for memory in same if memory.status in LIVING), None)
        if living is not None:
            return Noted(self._strengthened(connection, living, draft, actor), is_new=False)
        memory = self._drafted(draft, actor)
        warnings = self._examined(memory, same, actor)
        near, opposed = self._compared(connection, memory, vector)
        memory = replace(
            memory,
            near=tuple(other.id for other in near),
            contradicts=tuple(found.memory.id for found in opposed),
        )
        memory = self._doubted(connection, memory, opposed, actor)
        self._core.write(connection, "noted", memory, actor)
        self._keep_vector(connection, memory.id, vector)
        return Noted(memory, True, near, opposed, warnings)

    def _drafted(self, draft: Draft, actor: Actor) -> Memory:
        now = self._core.now()
        is_operator = actor.author == "operator"
        return Memory(
            id=f"mem_{self._core.ids.new()[:20]}",
            claim=draft.claim,
            evidence=draft.evidence,
            tags=draft.tags,
            confidence=round(draft.confidence, 4),
            status=draft.status,
            trust="reviewed" if is_operator else "agent",
            project=draft.project,
            author=actor.author,
            principal=actor.principal,
            client=actor.client,
            session=actor.session,
            created_at=now,
            updated_at=now,
            review_at=None if is_operator else self._core.review_at(),
            reviewed_at=now if is_operator else None,
            supersedes=draft.supersedes,
            secrets=tuple(sorted(self._core.find_secrets(draft.claim))),
        )

    def _examined(self, memory: Memory, same: Sequence[Memory], actor: Actor) -> tuple[str, ...]:
        decision = decide(
            Facts(
                memory=memory,
                rejected=[other for other in same if other.status == "rejected"],
                is_order=is_order(memory.claim),
            )
        )
        limit = Verdict.REJECT if actor.author == "operator" else Verdict.BREAK_GLASS
        if decision.verdict >= limit:
            raise Refused(NOTE_TOOL, [decision])
        return tuple(decision.warnings)

    def _strengthened(
        self, connection: sqlite3.Connection, known: Memory, draft: Draft, actor: Actor
    ) -> Memory:
        is_accepted = actor.author == "operator" and known.trust == "agent"
        if known.session == actor.session and not is_accepted:
            return known  # to say a thing twice is not a second witness
        now = self._core.now()
        memory = replace(
            known,
            times_noted=known.times_noted + 1,
            tags=clean_tags((*known.tags, *draft.tags))[:MAX_TAGS],
            evidence=tuple(dict.fromkeys((*known.evidence, *draft.evidence)))[:MAX_EVIDENCE],
            confidence=max(known.confidence, round(draft.confidence, 4)),
            updated_at=now,
        )
        if is_accepted:
            memory = replace(
                memory, trust="reviewed", status="active", reviewed_at=now, review_at=None
            )
        return self._core.write(connection, "strengthened", memory, actor)

    def _compared(
        self, connection: sqlite3.Connection, memory: Memory, vector: Floats | None
    ) -> tuple[tuple[Memory, ...], tuple[Contradiction, ...]]:
        """Return what means the same and what excludes it, among what holds in the same place."""
        own = terms(memory.claim)
        found, weights = self._core.recall.similar(connection, own)
        index = self._core.recall.vectors
        likeness = index.against(vector) if index is not None and vector is not None else None
        meant = likeness.nearest(_COMPARED) if likeness else []
        memories = queries.by_rows(connection, sorted({*found, *meant}))
        said = statement(memory.claim)
        near: list[Memory] = []
        opposed: list[Contradiction] = []
        for row, other in memories.items():
            if other.project not in ("", memory.project) or other.status not in LIVING:
                continue
            how = opposition(said, statement(other.claim))
            words = overlap(own, terms(other.claim), weights.idf)
            if how and other.is_recalled and other.id != memory.supersedes:
                opposed.append(Contradiction(other, how))
            elif not how and is_near(words, likeness.cosine(row) if likeness else None):
                near.append(other)
        return tuple(near), tuple(opposed)

    def _doubted(
        self,
        connection: sqlite3.Connection,
        memory: Memory,
        opposed: Sequence[Contradiction],
        actor: Actor,
    ) -> Memory:
        """Quarantine what nobody reviewed and something contradicts, the new and the old."""
        rule = replace(actor, via="rule")
        for found in opposed:
            other = replace(
                found.memory,
                contradicts=tuple(dict.fromkeys((*found.memory.contradicts, memory.id))),
                updated_at=memory.updated_at,
            )
            reason = f"contradicted by {memory.id} ({found.how})"
            if other.trust == "agent" and memory.status == "active":
                other = replace(other, status="quarantined", reason=reason)
            elif memory.trust == "reviewed":
                other = replace(other, review_wanted=reason)
            self._core.write(connection, "contradicted", other, rule)
        if opposed and memory.trust == "agent" and memory.status == "active":
            first = opposed[0]
            reason = f"contradicts {first.memory.id} ({first.how})"
            return replace(memory, status="quarantined", reason=reason)
        return memory

    def _keep_vector(
        self, connection: sqlite3.Connection, memory_id: str, vector: Floats | None
    ) -> None:
        index = self._core.recall.vectors
        if vector is None or index is None:
            return
        row, sealed = queries.place(connection, memory_id)
        vectors.store(connection, index.model, [(row, sealed, vector)])
        index.put(row, vector)

    async def tag(
        self, memory_id: str, tags: Sequence[str], actor: Actor, *, is_added: bool
    ) -> Memory:
        """Add or take away tags; what is already so changes nothing."""
        wanted = clean_tags(tags)

        def change(connection: sqlite3.Connection) -> Memory:
            memory = existing(connection, memory_id)
            kept = (
                clean_tags((*memory.tags, *wanted))
                if is_added
                else tuple(tag for tag in memory.tags if tag not in wanted)
            )
            if kept == memory.tags:
                return memory
            changed = replace(memory, tags=kept, updated_at=self._core.now())
            return self._core.write(connection, "tagged", changed, actor)

        return await self._core.database.write(change)

    async def outcome(
        self, memory_id: str, result: OutcomeResult, session: str, actor: Actor
    ) -> Memory:
        """Write down whether a memory helped a session: it moves salience, never trust."""

        def change(connection: sqlite3.Connection) -> Memory:
            memory = existing(connection, memory_id)
            if not memory.is_recalled:
                raise Conflict(
                    f"{memory_id} is {memory.status}: only an active memory can have helped"
                )
            now = self._core.now()
            said = Outcome(session=session, result=result, at=now)
            usage = Usage.of([*queries.outcomes(connection, memory_id), said])
            review_at = memory.review_at
            if review_at and usage.last_helpful_at:
                review_at = max(review_at, self._review_after(usage.last_helpful_at))
            changed = replace(
                memory,
                helpful=usage.helpful,
                not_helpful=usage.not_helpful,
                last_helpful_at=usage.last_helpful_at,
                review_at=review_at,
                updated_at=now,
            )
            self._core.changes.record_outcome(connection, changed, said, actor)
            return changed

        return await self._core.database.write(change)

    def _review_after(self, at: str) -> str:
        return iso_utc(moment(at) + timedelta(days=self._core.rules.review_after_days))


def clean_claim(claim: str) -> str:
    """Return a claim as it is kept, or say what is wrong with it."""
    clean = "".join(c for c in claim if c.isprintable() or c in "\n\t").strip()
    # Half characters cannot be written down.
    clean = clean.encode("utf-8", "ignore").decode()
    if not clean:
        raise InvalidParams("claim: one statement in words, and it is empty")
    if len(clean) > MAX_CLAIM_CHARS:
        raise InvalidParams(f"claim: at most {MAX_CLAIM_CHARS} characters, not {len(clean)}")
    return clean


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags as they are kept: lower case, each once, in order."""
    found = sorted({tag.strip().lower().replace(" ", "-") for tag in tags if tag.strip()})
    for tag in found:
        if not _TAG.fullmatch(tag):
            raise InvalidParams(
                f"tags: letters, digits and ./:+-_ up to 64 characters, not {tag[:80]!r}"
            )
    if len(found) > MAX_TAGS:
        raise InvalidParams(f"tags: at most {MAX_TAGS}, not {len(found)}")
    return tuple(found)


def is_order(claim: str) -> bool:
    """Tell whether a claim speaks to a model instead of stating something."""
    return _ORDERS.search(claim) is not None
