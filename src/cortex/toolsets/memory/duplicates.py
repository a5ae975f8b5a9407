"""When two claims mean the same, by their words and by their vectors. Pure functions."""

from collections.abc import Mapping, Sequence

SAME_WORDS = 0.8
"""Share of the weight of all terms that two near-duplicates have in common."""
SAME_MEANING = 0.95


def overlap(one: Sequence[str], other: Sequence[str], idf: Mapping[str, float]) -> float:
    """Return how much of what two claims say is said by both, 0 to 1; rare terms count more."""
    first, second = frozenset(one), frozenset(other)
    union = sum(_weight(term, idf) for term in first | second)
    return sum(_weight(term, idf) for term in first & second) / union if union else 0.0


def is_near(words: float, meaning: float | None) -> bool:
    """Tell whether two claims are near-duplicates."""
    return words >= SAME_WORDS or (meaning is not None and meaning >= SAME_MEANING)


def _weight(term: str, idf: Mapping[str, float]) -> float:
    # A term that only one of the two has was not looked up: it is taken for a middling one.
    return max(idf.get(term, 3.0), 0.5)
