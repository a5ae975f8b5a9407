"""The piece of a text that shows why it was found."""

import re
from collections.abc import Collection

from cortex.toolsets.conversations.terms import word_terms

_WORD = re.compile(r"\w+")
# Beyond this a snippet is not worth the time it takes to find.
_MAX_LOOKED_AT = 8_000


def snippet(text: str, terms: Collection[str], max_chars: int) -> str:
    """Return the part of a text, on one line, in which most of the terms stand."""
    looked_at = " ".join(text[:_MAX_LOOKED_AT].split())
    if len(looked_at) <= max_chars:
        return looked_at
    wanted = frozenset(terms)
    places = [
        (match.start(), found)
        for match in _WORD.finditer(looked_at)
        if (found := wanted.intersection(word_terms(match.group())))
    ]
    start = _best_start(places, max_chars)
    begin = max(0, min(start - max_chars // 4, len(looked_at) - max_chars))
    piece = looked_at[begin : begin + max_chars].strip()
    return f"{'…' if begin else ''}{piece}{'…' if begin + max_chars < len(looked_at) else ''}"


def _best_start(places: list[tuple[int, frozenset[str]]], max_chars: int) -> int:
    best, most = 0, 0
    for i, (start, _) in enumerate(places):
        inside: set[str] = set()
        for other, terms in places[i : i + 32]:
            if other - start > max_chars * 3 // 4:
                break
            inside |= terms
        if len(inside) > most:
            best, most = start, len(inside)
    return best
