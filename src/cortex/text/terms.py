"""The terms of a text: what an index holds and what a query asks for. Pure functions.

A term is the stem of a word (`[A-Za-z0-9_]+`, 2 to 64 characters, lower case), or of a part of an
identifier (`getUserName`, `snake_case`, `a/b.py`); words of other scripts count as they are,
accents folded, and runs of Chinese, Japanese and Korean as pairs of characters.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import chain

MIN_CHARS, MAX_CHARS = 2, 64

# Bytes that are no part of a word become blanks: four times as fast as an expression.
_BLANKED = bytes(c if c < 128 and (chr(c).isalnum() or c == ord("_")) else 32 for c in range(256))
_MAX_WORDS = 1 << 17
_ANY_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PAIRED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_PLURAL_IES = re.compile(r"[^ae]ies$")
_PLURAL_ES = re.compile(r"(?:ch|sh)es$|..(?:s|x|z)es$")
_PLURAL_S = re.compile(r"[^us]s$")
_ENDING = re.compile(r"(.*[aeiouy].*)(?:ing|ed)$")
_DOUBLED = re.compile(r"(bb|cc|dd|ff|gg|hh|jj|kk|mm|nn|pp|qq|rr|tt|vv|ww|xx|yy)$")


class _KnownWords(dict[str, tuple[str, ...]]):
    """The terms of words met before, so that each costs a lookup and no call."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        terms = _terms_of(word)
        if len(word) <= MAX_CHARS:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[word] = terms
        return terms


_KNOWN = _KnownWords()


def term_counts(text: str) -> tuple[Counter[str], int]:
    """Return how often each term occurs, and how many words the text has."""
    found = list(map(_KNOWN.__getitem__, _words(text)))
    return Counter(chain.from_iterable(found)), len(found) - found.count(())


def query_terms(text: str, limit: int) -> list[str]:
    """Return the terms of a query, each once, in the order in which they stand."""
    found = dict.fromkeys(term for word in _words(text) for term in word_terms(word))
    return list(found)[:limit]


def _words(text: str) -> list[str]:
    if text.isascii():
        return text.encode().translate(_BLANKED).decode().split()
    # Composed: a combining accent is no letter and would cut its word in two.
    return _ANY_WORD.findall(unicodedata.normalize("NFC", text))


def word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of one word: its own, then those of its parts."""
    return _KNOWN[word]


def _terms_of(word: str) -> tuple[str, ...]:
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


@lru_cache(maxsize=_MAX_WORDS)
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


# Words that carry no subject. Rare in some corpora, so idf alone does not see it.
FUNCTION_TERMS = frozenset(
    stem(word)
    for word in (
        "an and are as at be been but by can could did do does doing for from had has have he her"
        " hers him his how if in into is it its me my of on or our she should so than that the"
        " their them then there these they this those to was we were what when where which while"
        " who whom whose why will with would you your"
    ).split()
)
