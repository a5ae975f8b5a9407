"""When two claims cannot both hold: same subject, and negated, opposite, or another value.

Rules over words, no model: they are listed in docs/explain/memory.md. Pure functions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cortex.toolsets.memory.words import stem, whole_terms

Opposition = Literal["negated", "opposite", "different value"]

_NEGATIONS = frozenset(
    "not never no none nothing cannot neither nor without dont doesnt didnt isnt arent wasnt"
    " werent cant couldnt wont wouldnt shouldnt mustnt hasnt havent hadnt stopped".split()
)
_PHRASES = re.compile(r"\b(?:no longer|not any ?more|any ?more)\b", re.IGNORECASE)
_PAIRS = (
    "enable disable",
    "enabled disabled",
    "allow forbid",
    "allowed forbidden",
    "always never",
    "use avoid",
    "true false",
    "on off",
    "before after",
    "required optional",
    "pass fail",
    "passes fails",
    "safe unsafe",
    "sync async",
    "synchronous asynchronous",
    "include exclude",
    "public private",
    "mutable immutable",
    "increase decrease",
    "supported unsupported",
    "accept reject",
    "add remove",
    "fast slow",
    "good bad",
    "works broken",
    "prefer avoid",
    "like dislike",
    "must mustnt",
)
_VALUE = re.compile(
    r"^(?P<subject>.{3,200}?)\s+(?P<relation>is|are|was|were|uses?|runs? on|lives? in|prefers?"
    r"|requires?|needs?|defaults? to|must be|should be|equals?|listens? on|is set to|is stored in"
    r"|is called|is named|returns?|points? to|depends on)\s+(?P<value>.{1,200})$",
    re.IGNORECASE | re.DOTALL,
)
_ASSIGNED = re.compile(
    r"^(?P<subject>[^=:\n]{3,200}?)\s*(?:=|:(?!/))\s*(?P<value>\S.{0,199})$", re.DOTALL
)
_NUMBER = re.compile(r"\d+(?:[._]\d+)*")
_SAME_SUBJECT = 0.75
_SAME_REST = 0.7


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim taken apart: what it is about, whether it denies it, and what value it names."""

    words: frozenset[str]
    is_negated: bool
    subject: frozenset[str]
    is_denied: bool  # the subject is said not to have the value
    relation: str
    value: frozenset[str]
    numbers: tuple[str, ...]  # those of the value: a number elsewhere is a name


def statement(claim: str) -> Statement:
    """Take a claim apart."""
    bare = _PHRASES.sub(" not ", claim).strip()
    found = whole_terms(bare)
    match = _VALUE.match(bare) or _ASSIGNED.match(bare)
    parts = match.groupdict() if match else {}
    subject = frozenset(whole_terms(parts.get("subject", "")))
    value = str(parts.get("value", ""))
    return Statement(
        words=frozenset(found) - _DENIALS,
        is_negated=sum(term in _DENIALS for term in found) % 2 == 1,
        subject=subject - _DENIALS,
        is_denied=bool(subject & _DENIALS),
        relation=stem(str(parts.get("relation", "")).lower()),
        value=frozenset(whole_terms(_NUMBER.sub(" ", value))) - _DENIALS,
        numbers=tuple(_NUMBER.findall(value)),
    )


def opposition(one: Statement, other: Statement) -> Opposition | None:
    """Return how two claims exclude each other, or None if they do not."""
    swapped = _swapped(one.words, other.words)
    rest = _likeness(one.words - swapped, other.words - swapped)
    if rest >= _SAME_REST:
        if len(swapped) == 2:
            return None if one.is_negated != other.is_negated else "opposite"
        if one.is_negated != other.is_negated:
            return "negated"
    return "different value" if _has_other_value(one, other) else None


def _has_other_value(one: Statement, other: Statement) -> bool:
    if not one.subject or not other.subject or one.relation != other.relation:
        return False
    if one.is_denied or other.is_denied:
        return False
    if _likeness(one.subject, other.subject) < _SAME_SUBJECT:
        return False
    if one.numbers and other.numbers and one.numbers != other.numbers:
        return one.value == other.value
    # One value that holds the other says more, not something else.
    return bool(one.value) and bool(other.value) and not one.value & other.value


def _swapped(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    """Return the pair of opposites of which each claim has one and not the other."""
    for left, right in _OPPOSITES:
        for first, second in ((left, right), (right, left)):
            if first in one and second in other and second not in one and first not in other:
                return frozenset((first, second))
    return frozenset()


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    union = one | other
    return len(one & other) / len(union) if union else 0.0


def _stems(words: Sequence[str]) -> tuple[str, str]:
    return stem(words[0]), stem(words[1])


_DENIALS = frozenset(stem(word) for word in _NEGATIONS)
_OPPOSITES = tuple(_stems(pair.split()) for pair in _PAIRS)
