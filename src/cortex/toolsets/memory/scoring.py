"""How good a hit is, and what that is made of. Pure functions; the time is passed in."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cortex.toolsets.memory.models import Memory, Outcome, moment

K1 = 1.2
B = 0.4
"""Claims are short: their length says less than that of a document."""
HALF_LIFE_DAYS = 90.0
NOT_HELPFUL_WEIGHT = 4
REVIEW_BELOW = 0.25
"""A memory whose salience is lower is put up for review."""
AGENT_TRUST = 0.8
OTHER_PROJECT = 0.9
STALE = 0.5
MEANING_WEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class Weights:
    """What each term of a question is worth in this collection."""

    idf: Mapping[str, float]
    frequencies: Mapping[str, int]
    average_terms: float

    @classmethod
    def of(cls, frequencies: Mapping[str, int], docs: int, average_terms: float) -> "Weights":
        """Weigh terms by how rare they are."""
        idf = {
            term: math.log(1 + (max(docs, count) - count + 0.5) / (count + 0.5))
            for term, count in frequencies.items()
        }
        return cls(idf, frequencies, max(average_terms, 1.0))

    def rare(self, max_postings: int) -> dict[str, float]:
        """Return the weights of the rarest terms that stand in few enough memories together.

        One that is too common for that by itself is taken if there is no other.
        """
        chosen: dict[str, float] = {}
        present = [term for term, count in self.frequencies.items() if count]
        for term in sorted(present, key=lambda term: (self.frequencies[term], term)):
            max_postings -= self.frequencies[term]
            if max_postings < 0 and chosen:
                break
            chosen[term] = self.idf[term]
        return chosen

    def words(self, document: Sequence[str]) -> float:
        """Return how well the words of a memory match, 0 to 1 (BM25 over the best there can be)."""
        best = sum(self.idf.values()) * (K1 + 1)
        if not best:
            return 0.0
        scale = K1 * (1 - B + B * len(document) / self.average_terms)
        found = 0.0
        for term, weight in self.idf.items():
            count = document.count(term)
            if count:
                found += weight * count * (K1 + 1) / (count + scale)
        return found / best


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a score is made of: relevance times each factor."""

    words: float
    meaning: float | None  # None: one of the two has no vector
    trust: float
    salience: float
    support: float
    scope: float
    validity: float

    @property
    def relevance(self) -> float:
        """How much it is about what was asked: by words, and by meaning where there are vectors."""
        return relevance(self.words, self.meaning)

    @property
    def score(self) -> float:
        """The whole."""
        factors = self.trust * self.salience * self.support * self.scope * self.validity
        return self.relevance * factors


def relevance(words: float, meaning: float | None) -> float:
    """Return how much a memory is about a question: words alone where it has no vector."""
    if meaning is None:
        return words
    return (1 - MEANING_WEIGHT) * words + MEANING_WEIGHT * meaning


def factors(memory: Memory, *, project: str, now: datetime, is_stale: bool) -> dict[str, float]:
    """Return everything of a score that does not depend on the question."""
    return {
        "trust": 1.0 if memory.trust == "reviewed" else AGENT_TRUST,
        "salience": 0.7 + 0.3 * salience(memory, now),
        "support": min(1.1, 1 + 0.03 * math.log2(memory.times_noted)),
        "scope": 1.0 if memory.project in ("", project) else OTHER_PROJECT,
        "validity": STALE if is_stale else 1.0,
    }


def salience(memory: Memory, now: datetime) -> float:
    """Return how alive a memory is, 0 to 1: halved every 90 days since it last helped."""
    since = moment(memory.last_helpful_at or memory.reviewed_at or memory.created_at)
    age_days = max(0.0, (now - since).total_seconds() / 86_400)
    good = 1 + memory.helpful
    usefulness = good / (good + NOT_HELPFUL_WEIGHT * memory.not_helpful)
    return usefulness * math.pow(0.5, age_days / HALF_LIFE_DAYS)


@dataclass(frozen=True, slots=True)
class Usage:
    """What outcomes add up to."""

    helpful: int
    not_helpful: int
    last_helpful_at: str | None

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Usage":
        """Count the last word of each session: the same in any order."""
        last: dict[str, Outcome] = {}
        for outcome in outcomes:
            known = last.get(outcome.session)
            # At the same moment the doubt wins.
            if known is None or _age(outcome) > _age(known):
                last[outcome.session] = outcome
        good = [outcome for outcome in last.values() if outcome.result == "helpful"]
        return cls(
            helpful=len(good),
            not_helpful=len(last) - len(good),
            last_helpful_at=max((outcome.at for outcome in good), default=None),
        )


def _age(outcome: Outcome) -> tuple[datetime, bool]:
    return moment(outcome.at), outcome.result == "not-helpful"


def tokens(text: str) -> int:
    """Estimate how many tokens a text costs a model, rather too many than too few."""
    return math.ceil(len(text) / 3.6)
