"""The terms of a text: what the index holds and what a query asks for. Pure functions.

A term is the stem of a word (`[A-Za-z0-9_]+`, 2 to 64 characters, lower case), or of a part of an
identifier (`getUserName`, `snake_case`, `a/b.py`); words of other scripts count as they are,
accents folded, and runs of Chinese, Japanese and Korean as pairs of characters.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache

MIN_CHARS, MAX_CHARS = 2, 64

_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_ANY_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PAIRED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_PLURAL_IES = re.compile(r"[^ae]ies$")
_PLURAL_ES = re.compile(r"(?:ch|sh)es$|..(?:s|x|z)es$")
_PLURAL_S = re.compile(r"[^us]s$")
_ENDING = re.compile(r"(.*[aeiouy].*)(?:ing|ed)$")
_DOUBLED = re.compile(r"(bb|cc|dd|ff|gg|hh|jj|kk|mm|nn|pp|qq|rr|tt|vv|ww|xx|yy)$")


def term_counts(text: str) -> tuple[Counter[str], int]:
    """Return how often each term occurs, and how many words the text has."""
    counts: Counter[str] = Counter()
    length = 0
    for word, count in Counter(_words(text)).items():
        terms = word_terms(word)
        if terms:
            length += count
            for term in terms:
                counts[term] += count
    return counts, length


def query_terms(text: str, limit: int) -> list[str]:
    """Return the terms of a query, each once, in the order in which they stand."""
    found = dict.fromkeys(term for word in _words(text) for term in word_terms(word))
    return list(found)[:limit]


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text)
    # Composed: a combining accent is no letter and would cut its word in two.
    return _ANY_WORD.findall(unicodedata.normalize("NFC", text))


@lru_cache(maxsize=1 << 17)
def word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of one word: its own, then those of its parts."""
    if not word.isascii():
        decomposed = unicodedata.normalize("NFKD", word)
        bare = "".join(c for c in decomposed if not unicodedata.combining(c))
        # Composed again: the letters of a Hangul syllable are none of their own.
        word = unicodedata.normalize("NFC", bare)
    if not word.isascii():
        return _foreign_terms(word)
    if not MIN_CHARS <= len(word) <= MAX_CHARS:
        return ()
    parts = _PART.findall(word)
    terms = [stem(word.lower())]
    if len(parts) > 1:
        terms += [stem(part.lower()) for part in parts if len(part) >= MIN_CHARS]
    return tuple(terms)


def _foreign_terms(word: str) -> tuple[str, ...]:
    terms: list[str] = []
    for run in _PAIRED.findall(word):
        terms += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    rest = _PAIRED.sub(" ", word).lower().split()
    terms += [part for part in rest if MIN_CHARS <= len(part) <= MAX_CHARS]
    return tuple(terms)


@lru_cache(maxsize=1 << 17)
def stem(word: str) -> str:
    """Fold plurals, -ing and -ed: five rules on words of four or more plain letters."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    if len(word) > 4 and _PLURAL_IES.search(word):
        word = word[:-3] + "y"  # queries -> query
    elif _PLURAL_ES.search(word):
        word = word[:-2]  # boxes -> box
    elif _PLURAL_S.search(word):
        word = word[:-1]  # hooks -> hook
    ending = _ENDING.match(word)
    if ending and len(ending[1]) >= 3:
        word = ending[1]  # rendering -> render
        if len(word) > 3 and _DOUBLED.search(word):
            word = word[:-1]  # stopp -> stop
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]  # configure -> configur
    if len(word) > 3 and word[-1] == "y":
        return word[:-1] + "i"  # query -> queri
    return word
