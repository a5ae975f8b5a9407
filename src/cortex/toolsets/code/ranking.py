"""The rules of ranking code, in the order in which they apply. Pure arithmetic over arrays.

What each of them brought is in docs/explain/code-ranking.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortex.text.terms import FUNCTION_TERMS

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int32]
Mask = NDArray[np.bool_]

K1, B = 1.6, 0.5
FUNCTION_WEIGHT = 0.25  # what a function word of the query counts
FILE_SHARE = 0.5  # what the score of the whole file adds to each of its chunks
DEFINES, DEFINES_NAMED = 1.0, 0.5  # a chunk that defines the query; one that defines a name in it
OTHER_CASE = 0.5  # ... if only the case differs
OWN_FILE = 1.5  # ... if the file has that name too
PATH_SHARE = 1.0  # what a path that says all of the query adds
WHOLE_NAME = 0.2  # ... and what it adds if the query says all of the file's name
FOLDER_SHARE = 0.5  # a word of a folder against one of the file's own name
REPEATED = 0.5  # what each further chunk of one file counts against the one before
MIN_PREFIX = 3
VECTOR_SHARE, VECTOR_SHARE_SYMBOL = 0.4, 0.2  # against the words; a lone name leans on these
HALF = 0.5  # the worth that is shown as a score of one half

_TEST = re.compile(
    r"(?:^|[/_.-])(?:tests?|__tests__|specs?|testing|testdata|fixtures?|mocks?|bench(?:es|marks?)?)"
    r"(?:[/_.-]|$)|(?:Tests?|Spec|Mock)\.\w+$"
)
_EXAMPLE = re.compile(r"(?:^|/)_?(?:examples?|samples?|demos?|docs?_src|tutorials?)(?:/|$)")
_COPY = re.compile(
    r"(?:^|/)(?:vendor|vendored|third[_-]?party|compat|legacy|deprecated|dist|generated)(?:/|$)"
    r"|\.(?:pb|g|generated|min)\.\w+$"
)
_FACADE = frozenset({"__init__.py", "package-info.java"})
_STANDINGS = ((_TEST, 0.3), (_EXAMPLE, 0.3), (_COPY, 0.5))
_FACADE_STANDING = 0.5
_TYPE_STANDING = {"documentation": 0.7, "data": 0.7}


def standing(path: str, chunk_type: str) -> float:
    """Return what a chunk is worth against the source it copies, shows or describes."""
    value = _TYPE_STANDING.get(chunk_type, 1.0)
    for pattern, share in _STANDINGS:
        if pattern.search(path):
            value *= share
    return value * (_FACADE_STANDING if path.rsplit("/", 1)[-1] in _FACADE else 1.0)


def weight_of(term: str, content: frozenset[str]) -> float:
    """Return how much a term of the query counts."""
    return FUNCTION_WEIGHT if term in FUNCTION_TERMS and term not in content else 1.0


def idf(total: int, frequency: int) -> float:
    """Return the weight of a term that `frequency` of `total` hold."""
    return float(np.log1p((total - frequency + 0.5) / (frequency + 0.5)))


def norm(words: Floats) -> Floats:
    """Return for each text how many times a term must occur to be worth half of the most."""
    average = np.float32(max(float(words.mean()) if len(words) else 1.0, 1.0))
    return np.float32(K1) * (np.float32(1 - B) + np.float32(B) * words / average)


def saturated(counts: Floats, norm: Floats) -> Floats:
    """Return BM25's share of a count: ever less for each repetition, less in a long text."""
    return counts * np.float32(K1 + 1) / (counts + norm)


def vector_share(*, is_symbol: bool) -> np.float32:
    """Return how much the vectors count for a query."""
    return np.float32(VECTOR_SHARE_SYMBOL if is_symbol else VECTOR_SHARE)


def shown(worth: float) -> float:
    """Return a worth as a score from 0 to 1: the same order, and no end to what rules may add."""
    return worth / (worth + HALF)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Chunks in the order of their worth, what each is worth, and what that is made of."""

    chunk: Ints
    worth: Floats
    parts: Mapping[str, Floats]


def in_order(score: Floats, file_of: Ints, limit: int) -> tuple[Ints, Floats]:
    """Return the best chunks and their worth; each further one of a file counts half."""
    wanted = np.flatnonzero(score > 0).astype(np.int32)
    # Enough that a file with many good chunks does not hide the files behind it.
    pool = max(20 * limit, 400)
    if len(wanted) > pool:
        least = np.partition(score[wanted], -pool)[-pool]
        wanted = wanted[score[wanted] >= least]
    order = wanted[np.argsort(-score[wanted], kind="stable")]
    worth = score[order] * np.float32(REPEATED) ** _earlier(file_of[order])
    best = np.argsort(-worth, kind="stable")[:limit]
    return order[best], worth[best].astype(np.float32)


def _earlier(files: Ints) -> Ints:
    """Return for each place how many before it are of the same file."""
    by_file = np.argsort(files, kind="stable")
    grouped = files[by_file]
    first = np.searchsorted(grouped, grouped, side="left")
    counts = np.empty(len(files), dtype=np.int32)
    counts[by_file] = np.arange(len(files)) - first
    return counts
