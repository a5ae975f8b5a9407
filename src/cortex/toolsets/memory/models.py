"""Values of memory: claims with their evidence, their life and their doubt. Frozen, no I/O."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Literal, Self, cast, get_args

Status = Literal[
    "candidate", "pending", "active", "superseded", "quarantined", "rejected", "retired"
]
Trust = Literal["agent", "reviewed"]
Author = Literal["operator", "agent"]
EvidenceKind = Literal["event", "file", "commit", "text"]
OutcomeResult = Literal["helpful", "not-helpful"]
Via = Literal["agent", "terminal", "elicitation", "code", "auto-commit", "rule", "import"]
"""How a change came about: who said yes to it, or which mechanism made it."""

MAX_CLAIM_CHARS = 2000
MAX_TAGS = 16
MAX_EVIDENCE = 16
RECALLED: Status = "active"
"""The one status whose memories are given to agents."""
LIVING: frozenset[Status] = frozenset({"candidate", "pending", "active", "quarantined"})
"""What a new claim is compared with; the others have ended."""
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows a claim: an event, lines of a file, a commit, or words."""

    kind: EvidenceKind
    ref: str
    start: int | None = None
    end: int | None = None
    sha256: str | None = None
    is_checked: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as the ledger holds it: what is not known is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who made a change, from where, and on whose word."""

    author: Author
    via: Via
    principal: str = ""
    client: str = ""
    session: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one session says of one memory; the last word of a session counts."""

    session: str
    result: OutcomeResult
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One claim and everything known of it."""

    id: str
    claim: str
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""  # why it was rejected, quarantined or retired
    tags: tuple[str, ...] = ()
    confidence: float = 0.8
    status: Status = "candidate"
    trust: Trust = "agent"
    project: str = ""  # empty: it holds everywhere
    author: Author = "agent"
    principal: str = ""
    client: str = ""
    session: str = ""
    created_at: str
    updated_at: str
    review_at: str | None = None
    reviewed_at: str | None = None
    review_wanted: str = ""  # why a person should look at it again
    times_noted: int = 1
    helpful: int = 0
    not_helpful: int = 0
    last_helpful_at: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    contradicts: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @property
    def is_recalled(self) -> bool:
        """Whether agents are given it."""
        return self.status == RECALLED

    @property
    def has_files(self) -> bool:
        """Whether files can make it stale."""
        return any(item.kind == "file" for item in self.evidence)

    def open_fields(self) -> dict[str, Any]:
        """Return every field that stays in the ledger when the memory is forgotten."""
        return {name: _plain(getattr(self, name)) for name in OPEN_FIELDS}

    def sealed_fields(self) -> dict[str, Any]:
        """Return the words: what `forget` takes away for good."""
        return {
            "claim": self.claim,
            "evidence": [item.to_json() for item in self.evidence],
            "reason": self.reason,
        }

    @classmethod
    def from_fields(cls, known: Mapping[str, Any], sealed: Mapping[str, Any]) -> Self:
        """Build a memory from what the ledger holds of it."""
        values: dict[str, Any] = {
            name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
            for name, value in known.items()
        }
        evidence = tuple(Evidence(**item) for item in sealed["evidence"])
        return cls(claim=sealed["claim"], evidence=evidence, reason=sealed["reason"], **values)


SEALED_FIELDS = ("claim", "evidence", "reason")
OPEN_FIELDS = tuple(field.name for field in fields(Memory) if field.name not in SEALED_FIELDS)


def _plain(value: Any) -> Any:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def moment(at: str) -> datetime:
    """Read a moment as records write it."""
    return datetime.fromisoformat(at)
