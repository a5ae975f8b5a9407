"""The terms of a claim: what is indexed, compared and asked for. Pure functions.

A term is the stem of a word in lower case; an identifier also counts as its parts, and a run of
Chinese, Japanese or Korean as pairs of characters.
"""

import hashlib
import re
import unicodedata
from functools import lru_cache

MAX_TERM_CHARS = 64

_WORD = re.compile(r"\w+(?:'\w+)?")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PAIRED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_NOT_KEY = re.compile(r"[^\w]+")
_DOUBLED = re.compile(r"(bb|dd|ff|gg|mm|nn|pp|rr|tt)$")
_VOWEL = re.compile(r"[aeiouy]")

# Words that say nothing of what a claim is about. Negations are not here: they are its meaning.
STOP_WORDS = frozenset(
    "a an and are as at be been but by can could did do does doing for from had has have he her"
    " him his how i if in into is it its itself just me my of on or our she should so than that"
    " the their them then there these they this those to too us very was we were what when where"
    " which while who whom whose why will with would you your s t m re ve ll d".split()
)


def terms(text: str) -> list[str]:
    """Return every term of a text in order, those of no meaning left out."""
    return [term for word in _words(text) for term in _word_terms(word)]


def whole_terms(text: str) -> list[str]:
    """Return one term for each word: an identifier counts whole, not by its parts."""
    found = (_word_terms(word) for word in _words(text))
    return [of_word[0] for of_word in found if of_word]


def query_terms(text: str, limit: int) -> list[str]:
    """Return the terms of a question, each once; one of stop words alone is taken as it is."""
    found = list(dict.fromkeys(terms(text)))
    if not found:
        found = list(dict.fromkeys(word.lower()[:MAX_TERM_CHARS] for word in _words(text)))
    return found[:limit]


def claim_key(text: str) -> str:
    """Return what two spellings of one claim have in common: letters and digits, folded."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return hashlib.sha256(" ".join(_NOT_KEY.split(folded)).strip().encode()).hexdigest()[:32]


def _words(text: str) -> list[str]:
    return _WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text))


@lru_cache(maxsize=1 << 16)
def _word_terms(word: str) -> tuple[str, ...]:
    bare = word.split("'", 1)[0] if not word.lower().endswith("n't") else word.replace("'", "")
    if not bare.isascii():
        decomposed = unicodedata.normalize("NFKD", bare)
        bare = "".join(c for c in decomposed if not unicodedata.combining(c))
        bare = unicodedata.normalize("NFC", bare)
    lower = bare.lower()[:MAX_TERM_CHARS]
    if lower in STOP_WORDS or not lower.strip("_"):
        return ()
    if not lower.isascii():
        return _foreign(lower)
    parts = _PART.findall(bare)
    found = [stem(lower)]
    if len(parts) > 1:
        found += [stem(part.lower()) for part in parts if part.lower() not in STOP_WORDS]
    return tuple(found)


def _foreign(word: str) -> tuple[str, ...]:
    found: list[str] = []
    for run in _PAIRED.findall(word):
        found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    return (*found, *_PAIRED.sub(" ", word).split())


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Fold plurals, -ing, -ed and -ly of plain words of four or more letters."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("ches", "shes", "sses", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and word[-2] not in "us":
        word = word[:-1]
    for ending in ("ing", "ed", "ly"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and _VOWEL.search(root):
            word = root[:-1] if len(root) > 3 and _DOUBLED.search(root) else root
            break
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" else word
