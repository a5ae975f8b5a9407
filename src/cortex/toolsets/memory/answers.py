"""What the memory tools answer: small published shapes, and how values become them."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from cortex.gateway.spec import Result
from cortex.state.ledger import Record
from cortex.toolsets.memory.models import Evidence, Memory
from cortex.toolsets.memory.notes import Noted
from cortex.toolsets.memory.packs import Pack, line
from cortex.toolsets.memory.principles import Principle
from cortex.toolsets.memory.proof import Proof
from cortex.toolsets.memory.review import Committed
from cortex.toolsets.memory.service import Health, Hit, Whole
from cortex.toolsets.memory.sessions import Closed, Reflection

_PLACES = 4


def _lean(schema: dict[str, Any]) -> None:
    """Publish types without the list of fields: all of them are always there."""
    schema.pop("required", None)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_extra=_lean)


class _Answer(Result):
    model_config = ConfigDict(json_schema_extra=_lean)


class Brief(_Part):
    id: str
    claim: str
    status: str
    trust: str
    tags: list[str]

    @classmethod
    def of(cls, memory: Memory) -> "Brief":
        """Show a memory in five fields."""
        return cls(**_brief(memory))


class Changed(_Answer):
    id: str
    status: str
    trust: str
    tags: list[str]

    @classmethod
    def of(cls, memory: Memory) -> "Changed":
        """Show what a memory is after a change."""
        return cls(id=memory.id, status=memory.status, trust=memory.trust, tags=list(memory.tags))


class NoteAnswer(_Answer):
    id: str
    status: str
    trust: str
    is_new: bool
    reason: str
    near: dict[str, str]
    contradictions: dict[str, str]
    warnings: list[str]

    @classmethod
    def of(cls, noted: Noted) -> "NoteAnswer":
        """Show what became of a note, and by id what it resembles and what excludes it."""
        memory = noted.memory
        return cls(
            id=memory.id,
            status=memory.status,
            trust=memory.trust,
            is_new=noted.is_new,
            reason=memory.reason,
            near={other.id: other.claim for other in noted.near},
            contradictions={
                found.memory.id: f"{found.how}: {found.memory.claim}"
                for found in noted.contradictions
            },
            warnings=list(noted.warnings),
        )


class HitOut(_Part):
    id: str
    claim: str
    trust: str
    tags: list[str]
    score: float
    parts: dict[str, float]
    stale_evidence: bool


class Hits(_Answer):
    hits: list[HitOut]

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> "Hits":
        """Show hits with what their scores are made of."""
        return cls(hits=[hit_out(hit) for hit in hits])


class WholeAnswer(_Answer):
    id: str
    claim: str
    status: str
    trust: str
    tags: list[str]
    project: str
    confidence: float
    salience: float
    reason: str
    origin: str
    evidence: list[str]
    stale_evidence: bool
    links: dict[str, list[str]]
    outcomes: list[str]
    history: list[str]

    @classmethod
    def of(cls, whole: Whole) -> "WholeAnswer":
        """Show one memory with everything that happened to it."""
        memory = whole.memory
        links = {
            "supersedes": [memory.supersedes] if memory.supersedes else [],
            "superseded_by": [memory.superseded_by] if memory.superseded_by else [],
            "contradicts": list(memory.contradicts),
            "near": list(memory.near),
        }
        return cls(
            **_brief(memory),
            project=memory.project,
            confidence=memory.confidence,
            salience=round(whole.salience, _PLACES),
            reason=memory.reason,
            origin=" ".join(filter(None, (memory.author, memory.client, memory.session))),
            evidence=[evidence_line(item) for item in memory.evidence],
            stale_evidence=whole.is_stale,
            links={name: ids for name, ids in links.items() if ids},
            outcomes=[f"{o.at} {o.result} in {o.session}" for o in whole.outcomes],
            history=[history_line(record) for record in whole.history],
        )


class Page(_Answer):
    memories: list[Brief]
    total: int


class Usefulness(_Answer):
    id: str
    helpful: int
    not_helpful: int
    salience: float


class CommitAnswer(_Answer):
    approved: bool
    status: dict[str, str]
    warnings: list[str]

    @classmethod
    def of(cls, done: Committed) -> "CommitAnswer":
        """Show the status each memory has now."""
        return cls(
            approved=done.is_approved,
            status={memory.id: memory.status for memory in done.memories},
            warnings=list(done.warnings),
        )


class Suggestion(_Part):
    id: str
    claim: str
    trust: str
    score: float


class Suggestions(_Answer):
    memories: list[Suggestion]

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> "Suggestions":
        """Show what is worth knowing."""
        return cls(
            memories=[
                Suggestion(
                    id=hit.memory.id,
                    claim=hit.memory.claim,
                    trust=hit.memory.trust,
                    score=round(hit.score, _PLACES),
                )
                for hit in hits
            ]
        )


class HealthAnswer(_Answer):
    by_status: dict[str, int]
    counts: dict[str, int]
    duplicate_rate: float
    ids: dict[str, list[str]]

    @classmethod
    def of(cls, health: Health) -> "HealthAnswer":
        """Show counts, and the newest ids of what needs a look."""
        flags = {
            "contradicted": health.contradicted,
            "near_duplicate": health.near_duplicates,
            "secrets": health.secrets,
            "review_wanted": health.review_wanted,
        }
        return cls(
            by_status=health.by_status,
            counts={
                "unvalidated": health.unvalidated,
                "stale": len(health.stale),
                "stale_checked": health.stale_checked,
                **{name: total for name, (_, total) in flags.items()},
            },
            duplicate_rate=round(health.duplicate_rate, _PLACES),
            ids={"stale": list(health.stale), **{name: ids for name, (ids, _) in flags.items()}},
        )


class PackAnswer(_Answer):
    text: str
    ids: list[str]
    tokens: int
    left_out: dict[str, str]

    @classmethod
    def of(cls, pack: Pack) -> "PackAnswer":
        """Show the pack as a model reads it, and by id why others are not in it."""
        return cls(
            text="\n".join(line(hit) for hit in pack.chosen),
            ids=[hit.memory.id for hit in pack.chosen],
            tokens=pack.tokens,
            left_out={left.memory_id: left.reason for left in pack.left_out},
        )


class ClosedAnswer(_Answer):
    events: int
    repeated: int
    candidates: dict[str, str]
    refused: list[str]

    @classmethod
    def of(cls, closed: Closed) -> "ClosedAnswer":
        """Show the claims a session left behind, by id."""
        return cls(
            events=closed.events,
            repeated=closed.repeated,
            candidates={noted.memory.id: noted.memory.claim for noted in closed.candidates},
            refused=list(closed.refused),
        )


class Reflected(_Part):
    claim: str
    rule: str
    confidence: float
    events: list[str]


class ReflectAnswer(_Answer):
    session: str
    events: int
    candidates: list[Reflected]

    @classmethod
    def of(cls, reflection: Reflection) -> "ReflectAnswer":
        """Show what a session supports."""
        return cls(
            session=reflection.session,
            events=reflection.events,
            candidates=[
                Reflected(
                    claim=c.claim, rule=c.rule, confidence=c.confidence, events=list(c.events)
                )
                for c in reflection.candidates
            ],
        )


class PrincipleOut(_Part):
    id: str
    claim: str
    memories: list[str]
    domains: list[str]

    @classmethod
    def of(cls, principle: Principle) -> "PrincipleOut":
        """Show a principle with its support."""
        return cls(
            id=principle.id,
            claim=principle.claim,
            memories=list(principle.memories),
            domains=list(principle.domains),
        )


class PrinciplesAnswer(_Answer):
    supported: int
    candidates: int
    principles: list[PrincipleOut]


class ProofAnswer(_Answer):
    ok: bool
    records: int
    memories: int
    head: str
    differences: list[str]

    @classmethod
    def of(cls, proof: Proof) -> "ProofAnswer":
        """Show a proof; of very many differences the first hundred."""
        shown = [f"{found.where}: {found.problem}" for found in proof.differences[:100]]
        more = len(proof.differences) - len(shown)
        return cls(
            ok=proof.is_sound,
            records=proof.records,
            memories=proof.memories,
            head=proof.head,
            differences=shown + ([f"and {more} more"] if more else []),
        )


def hit_out(hit: Hit) -> HitOut:
    """Show one hit."""
    parts = {
        "words": hit.parts.words,
        "meaning": hit.parts.meaning,
        "trust": hit.parts.trust,
        "salience": hit.parts.salience,
        "support": hit.parts.support,
        "scope": hit.parts.scope,
        "validity": hit.parts.validity,
    }
    return HitOut(
        id=hit.memory.id,
        claim=hit.memory.claim,
        trust=hit.memory.trust,
        tags=list(hit.memory.tags),
        score=round(hit.score, _PLACES),
        parts={k: round(v, _PLACES) for k, v in parts.items() if v is not None},
        stale_evidence=hit.is_stale,
    )


def evidence_line(item: Evidence) -> str:
    """Write evidence as it is given: `file:PATH#L3-L9`; what nobody could look at is unchecked."""
    lines = f"#L{item.start}-L{item.end or item.start}" if item.start else ""
    prefix = "" if item.kind == "text" else f"{item.kind}:"
    checked = "" if item.is_checked or item.kind in ("text", "commit") else " (unchecked)"
    return f"{prefix}{item.ref}{lines}{checked}"


def history_line(record: Record) -> str:
    """Write a record of the ledger in one line."""
    by: dict[str, Any] = record.body.get("by", {})
    was = record.body.get("was")
    what = f"{was['kind']} (imported)" if was else record.kind
    return f"{record.seq} {record.at} {what} by {by.get('author')} via {by.get('via')}"


def _brief(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "claim": memory.claim,
        "status": memory.status,
        "trust": memory.trust,
        "tags": list(memory.tags),
    }
