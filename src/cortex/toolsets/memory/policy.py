"""What may become of a memory: rules give outcomes, the strongest decides, all are explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from cortex.errors import GateClosed
from cortex.toolsets.memory.models import Memory

GATE = "memory.commit"


class Verdict(IntEnum):
    """From weakest to strongest."""

    ALLOW = 0
    WARN = 1
    BREAK_GLASS = 2
    QUARANTINE = 3
    REJECT = 4

    @property
    def word(self) -> str:
        """As it is written in answers."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says of one memory, and what an operator can do."""

    rule: str
    verdict: Verdict
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the rules look at, gathered before they are asked."""

    memory: Memory
    opposed: Sequence[Memory] = ()  # reviewed and recalled, and they exclude it
    rejected: Sequence[Memory] = ()  # the same claim, rejected by a person
    is_stale: bool = False
    is_unfounded: bool = False  # it cites an event that is not there
    is_order: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The strongest finding, and all of them."""

    memory_id: str
    verdict: Verdict
    findings: tuple[Finding, ...]

    @property
    def is_refused(self) -> bool:
        """Whether an agent is refused: break-glass is for a person at a terminal."""
        return self.verdict >= Verdict.BREAK_GLASS

    @property
    def deciding(self) -> Finding | None:
        """The finding that decided."""
        return max(self.findings, key=lambda found: found.verdict, default=None)

    @property
    def warnings(self) -> list[str]:
        """What was found without deciding against it."""
        return [f"{found.rule}: {found.reason}" for found in self.findings]


class Refused(GateClosed):
    """A rule of memory said no: which one, and what an operator can do."""

    def __init__(self, tool: str, decisions: Sequence[Decision]) -> None:
        worst = max(decisions, key=lambda decision: decision.verdict)
        found = worst.deciding
        reason = f"{found.rule}: {found.reason}" if found else "a rule refused it"
        super().__init__(
            tool, GATE, reason=f"{worst.memory_id}: {reason}", hint=found.remedy if found else ""
        )
        self.details |= {
            "outcome": worst.verdict.word,
            "rule": found.rule if found else "",
            "memories": [
                {
                    "id": decision.memory_id,
                    "outcome": decision.verdict.word,
                    "rules": [finding.rule for finding in decision.findings],
                }
                for decision in decisions
            ],
        }


def decide(facts: Facts) -> Decision:
    """Ask every rule and take the strongest answer: for one memory as for each of many."""
    findings = tuple(found for rule in _RULES if (found := rule(facts)) is not None)
    verdict = max((found.verdict for found in findings), default=Verdict.ALLOW)
    return Decision(facts.memory.id, verdict, findings)


def _secret(facts: Facts) -> Finding | None:
    if not facts.memory.secrets:
        return None
    kinds = ", ".join(facts.memory.secrets)
    return Finding(
        "memory.secret",
        Verdict.REJECT,
        f"the claim holds what looks like a secret ({kinds})",
        "write it without the secret; an operator can `cortex memory forget` it",
    )


def _order(facts: Facts) -> Finding | None:
    if not facts.is_order:
        return None
    return Finding(
        "memory.order",
        Verdict.REJECT,
        "it gives a model orders instead of stating something",
        "state the fact behind it",
    )


def _rejected_before(facts: Facts) -> Finding | None:
    if not facts.rejected:
        return None
    return Finding(
        "memory.rejected_before",
        Verdict.QUARANTINE,
        f"a person rejected the same claim ({facts.rejected[0].id})",
        "an operator can accept it in `cortex memory review`",
    )


def _open_contradiction(facts: Facts) -> Finding | None:
    if not facts.opposed:
        return None
    return Finding(
        "memory.open_contradiction",
        Verdict.QUARANTINE,
        f"it contradicts the reviewed {facts.opposed[0].id}",
        f"supersede or reject {facts.opposed[0].id} first",
    )


def _stale_evidence(facts: Facts) -> Finding | None:
    if not facts.is_stale:
        return None
    return Finding(
        "memory.stale_evidence",
        Verdict.BREAK_GLASS,
        "the lines it cites have changed",
        "an operator can accept it all the same in `cortex memory review`",
    )


def _unfounded(facts: Facts) -> Finding | None:
    if not facts.is_unfounded:
        return None
    return Finding(
        "memory.unfounded",
        Verdict.WARN,
        "it cites an event that is not in the conversations, or not yet",
        "look at what else shows it",
    )


def _no_evidence(facts: Facts) -> Finding | None:
    if facts.memory.evidence:
        return None
    return Finding("memory.no_evidence", Verdict.WARN, "nothing shows it", "add evidence")


_RULES = (
    _secret,
    _order,
    _rejected_before,
    _open_contradiction,
    _stale_evidence,
    _unfounded,
    _no_evidence,
)
