"""Claims that a session supports, by rules over its words. No model; the rules are listed here.

Every rule is a row: its name, the roles it listens to, what it looks for, and how sure it makes us.
docs/explain/memory.md shows the same list.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cortex.toolsets.memory.words import claim_key

Role = Literal["user", "assistant", "tool"]
RuleName = Literal["decision", "correction", "preference", "cause", "repeated failure"]

_MIN_CHARS, _MAX_CHARS = 12, 400
_MAX_TEXT_CHARS = 20_000
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_FENCE = re.compile(r"```.*?(?:```|$)", re.DOTALL)
_LEAD = re.compile(r"^(?:[-*>#\d.)\s]+|\W+)")
_FAILURE = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)\b[^\n]{0,200}|error(?:\[\w+\])?: [^\n]{5,200}"
    r"|FAILED [^\n]{3,200}|command not found: ?[^\n]{1,80})"
)
_FAILURES = 3


@dataclass(frozen=True, slots=True)
class SaidEvent:
    """One thing that was said or returned in a session."""

    id: str
    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One listed rule."""

    name: RuleName
    roles: frozenset[Role]
    pattern: re.Pattern[str]
    confidence: float


@dataclass(frozen=True, slots=True)
class Extracted:
    """A claim, the rule that took it, and the events that show it."""

    claim: str
    rule: RuleName
    confidence: float
    events: tuple[str, ...]


def _rule(name: RuleName, roles: str, pattern: str, confidence: float) -> Rule:
    wanted: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool"}
    return Rule(
        name,
        frozenset(wanted[role] for role in roles.split()),
        re.compile(pattern, re.IGNORECASE),
        confidence,
    )


RULES: tuple[Rule, ...] = (
    _rule(
        "correction",
        "user",
        r"^(?:no|nope|wrong|actually|that'?s (?:wrong|not right|incorrect))\b[,.:;! ]"
        r"|\bnot\b.{1,80}\bbut\b|\binstead of\b|\bdon'?t (?:use|do|add|write|run|touch)\b",
        0.8,
    ),
    _rule(
        "preference",
        "user",
        r"\b(?:i|we) (?:always|never|prefer|like|want|hate|usually)\b|\bplease (?:always|never)\b"
        r"|^(?:always|never|from now on)\b|\bremember (?:that|to)\b|\bmake sure (?:to|that)\b",
        0.8,
    ),
    _rule(
        "decision",
        "user assistant",
        r"\b(?:we|i)(?:'ve| have)? (?:decided|chose|agreed|settled)\b|\bdecision:"
        r"|\blet'?s (?:use|go with|keep|switch to|stick with)\b|\bwe(?:'ll| will) (?:use|keep)\b",
        0.7,
    ),
    _rule(
        "cause",
        "assistant",
        r"\b(?:the )?(?:root cause|actual problem|real issue|culprit|reason) (?:is|was)\b"
        r"|\bturns out\b|\bthe fix (?:is|was)\b|\bthis (?:fails|happens) because\b",
        0.6,
    ),
)


def extract(events: Iterable[SaidEvent]) -> list[Extracted]:
    """Return the claims the rules find, each once, in the order they were first said."""
    found: dict[str, Extracted] = {}
    failures: dict[str, list[str]] = defaultdict(list)
    for event in events:
        text = event.text[:_MAX_TEXT_CHARS]
        if event.role == "tool":
            for failure in dict.fromkeys(_FAILURE.findall(text)):
                failures[_claim(failure)].append(event.id)
            continue
        for sentence in _sentences(text):
            rule = _matching(sentence, event.role)
            if rule is not None:
                _add(found, Extracted(sentence, rule.name, rule.confidence, (event.id,)))
    for failure, ids in failures.items():
        if len(ids) >= _FAILURES:
            claim = f"This failed {len(ids)} times in one session: {failure}"
            _add(found, Extracted(claim, "repeated failure", 0.6, tuple(ids[:8])))
    return list(found.values())


def _sentences(text: str) -> list[str]:
    parts = (_claim(part) for part in _SENTENCE.split(_FENCE.sub("\n", text)))
    return [part for part in parts if _MIN_CHARS <= len(part) <= _MAX_CHARS and part[-1] != "?"]


def _claim(text: str) -> str:
    return _LEAD.sub("", " ".join(text.split())).strip()


def _matching(sentence: str, role: Role) -> Rule | None:
    return next(
        (rule for rule in RULES if role in rule.roles and rule.pattern.search(sentence)), None
    )


def _add(found: dict[str, Extracted], new: Extracted) -> None:
    key = claim_key(new.claim)
    known = found.get(key)
    if known is None:
        found[key] = new
        return
    ids: Sequence[str] = tuple(dict.fromkeys((*known.events, *new.events)))[:8]
    confidence = max(known.confidence, new.confidence)
    found[key] = Extracted(known.claim, known.rule, confidence, tuple(ids))
