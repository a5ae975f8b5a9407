"""The piece of a text that shows why it was found."""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import islice

from cortex.text.terms import word_terms

# A text with more of them shows why it was found wherever it is cut.
_MAX_WORDS = 100
_WORD = re.compile(r"\w+")
# Beyond this a snippet is not worth the time it takes to find.
MAX_LOOKED_AT = 8_000


def snippet(text: str, terms: Collection[str], max_chars: int) -> str:
    """Return the part of a text, on one line, in which most of the terms stand."""
    looked_at = " ".join(text[:MAX_LOOKED_AT].split())
    if len(looked_at) <= max_chars:
        return looked_at
    wanted = frozenset(terms)
    places = (
        (start, found)
        for start, word in _words(looked_at, wanted)
        if (found := wanted.intersection(word_terms(word)))
    )
    start = _best_start(list(islice(places, _MAX_WORDS)), max_chars)
    begin = max(0, min(start - max_chars // 4, len(looked_at) - max_chars))
    piece = looked_at[begin : begin + max_chars].strip()
    return f"{'…' if begin else ''}{piece}{'…' if begin + max_chars < len(looked_at) else ''}"


@lru_cache(maxsize=64)
def _heads(terms: frozenset[str]) -> re.Pattern[str]:
    """Return what finds few words but all that have a term: a stem and its word begin alike."""
    return re.compile("|".join(re.escape(term[: max(2, len(term) - 2)]) for term in terms))


def _words(text: str, terms: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the words of a text that may have these terms, with their places."""
    if not text.isascii():
        yield from ((match.start(), match.group()) for match in _WORD.finditer(text))
        return
    done = 0
    for match in _heads(terms).finditer(text.lower()):
        if match.start() >= done:
            word = _WORD.match(text, _word_start(text, match.start()))
            if word is not None:
                done = word.end()
                yield word.start(), word.group()


def _word_start(text: str, place: int) -> int:
    while place and (text[place - 1].isalnum() or text[place - 1] == "_"):
        place -= 1
    return place


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
