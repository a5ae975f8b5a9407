"""What a chunk, a path and a query say, as terms. Pure functions; the weights are ranking's."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

from cortex.text.terms import FUNCTION_TERMS, query_terms, term_counts, word_terms
from cortex.toolsets.code.models import Chunk

NAME_WEIGHT = 2  # a name counts as if the chunk said it this many times more
STEM_WEIGHT, FOLDER_WEIGHT = 2, 1  # likewise the name of its file, and of the folders above
MAX_COUNT = 255
MAX_QUERY_TERMS = 64
_FOLDERS = 3  # folders nearest to the file; those above say where the project lies, not what it is

# File names that say nothing without their folder.
_NAMELESS = frozenset({"index", "mod", "lib", "main", "__init__", "init", "package-info"})

_WORD = r"[A-Za-z_$][\w$]*"
_QUALIFIED = rf"(?:{_WORD}(?:\.|::|\\|->))*({_WORD})"
_KEYWORDS = (
    "class module defmodule def defp defmacro defmacrop interface struct enum union trait type func"
    " function object fn fun package namespace protocol record typedef const let var val data"
    " newtype instance extension actor impl macro_rules! mod #define static"
).split()
_KEYWORD = "|".join(re.escape(word) for word in _KEYWORDS)
_DEFINITIONS = (
    # class Name, func (r *Receiver) Name, def self.name
    re.compile(rf"(?:^|\s)(?:{_KEYWORD})\s+(?:\([^)\n]*\)\s*)?{_QUALIFIED}", re.MULTILINE),
    # name = …, name :: Type, exports.name = … at the left edge
    re.compile(rf"^(?:{_WORD}\.)*({_WORD})\s*(?:=|::)\s", re.MULTILINE),
    # int name(…) and name() { at the left edge
    re.compile(
        r"^(?:[A-Za-z_][\w \t*&:<>,~]*[ \t*&])?([A-Za-z_][\w-]*)\s*\([^;\n]*$", re.MULTILINE
    ),
    # indented, after words such as public, static, override
    re.compile(
        r"^\s+(?:(?:public|private|protected|internal|static|final|override|async|virtual|abstract"
        r"|open|suspend|inline)\s+)+[\w<>\[\],.?]+\s+([A-Za-z_]\w*)\s*[(<]",
        re.MULTILINE,
    ),
)
_LISTED = re.compile(rf"^\s*- (?:.*?[\s.#:>])??({_WORD})\s*(?:\(|$)", re.MULTILINE)
_SYMBOL = re.compile(rf"{_WORD}(?:(?:\.|::|\\|->)[A-Za-z_$][\w$]*)*")
_NOT_NAME = re.compile(r"[^\w]+")
_SEPARATOR = re.compile(r"\.|::|\\|->")
_MIXED = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z0-9]_[A-Za-z0-9]|^_+[A-Za-z]")


def defined_names(chunk: Chunk) -> tuple[str, ...]:
    """Return the names that a chunk of code defines, each once and without what holds it."""
    if chunk.chunk_type == "documentation":
        return ()
    listed = chunk.metadata.get("names")
    if isinstance(listed, list):
        names = [_SEPARATOR.split(str(name))[-1] for name in cast("list[object]", listed)]
    else:
        # Files of project-cortex do not say it: what looks like a definition is one.
        patterns = (_LISTED,) if chunk.chunk_type == "symbols" else _DEFINITIONS
        names = [name for pattern in patterns for name in pattern.findall(chunk.content)]
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class PathTerms:
    """What the name of a file says, the words it is made of, and what its folders say."""

    stem: frozenset[str]
    parts: frozenset[str]
    folders: frozenset[str]


def path_terms(path: str) -> PathTerms:
    """Return the terms of a path; a file that every folder has one of takes its folder's name."""
    parts = PurePosixPath(path)
    folders = list(parts.parent.parts)[-_FOLDERS:]
    stem = file_stem(path)
    if stem.lower() in _NAMELESS and folders:
        stem = f"{stem} {folders[-1]}"
    words = [word_terms(word) for word in _NOT_NAME.split(stem)]
    return PathTerms(
        stem=frozenset(term for terms in words for term in terms),
        # `login` and `form` of `login_form`, which is a term as well.
        parts=frozenset(term for terms in words for term in terms[1:] or terms),
        folders=frozenset(term_counts(" ".join(folders))[0]),
    )


def file_stem(path: str) -> str:
    """Return the name of a file up to its first dot, as `sessions` of `src/sessions.test.py`."""
    name = path.rsplit("/", 1)[-1]
    return name.split(".", 1)[0] or name


def chunk_counts(
    chunk: Chunk, names: tuple[str, ...], where: PathTerms
) -> tuple[dict[str, int], int]:
    """Return the weighted count of each term of a chunk, and its length in words."""
    counts, length = term_counts(chunk.content)
    for name in names:
        for term in word_terms(name):
            counts[term] += NAME_WEIGHT
    for term in where.stem:
        counts[term] += STEM_WEIGHT
    for term in where.folders:
        counts[term] += FOLDER_WEIGHT
    return {term: min(count, MAX_COUNT) for term, count in counts.items()}, length


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name in a query: `Base` of `Sinatra::Base`. Alone, it is all the query has."""

    name: str
    is_alone: bool


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The terms of a query, those that carry its subject, and the names in it."""

    terms: tuple[str, ...]
    content: frozenset[str]
    symbols: tuple[Symbol, ...]

    @property
    def is_symbol(self) -> bool:
        """Whether the query is one name and nothing else."""
        return any(symbol.is_alone for symbol in self.symbols)


def read_query(text: str) -> QueryTerms:
    """Read a query; a word counts as a name if it looks like one or stands alone."""
    terms = tuple(query_terms(text, MAX_QUERY_TERMS))
    content = frozenset(term for term in terms if term not in FUNCTION_TERMS) or frozenset(terms)
    symbols: Counter[Symbol] = Counter()
    whole = text.strip().removesuffix("()")
    for match in _SYMBOL.findall(text):
        name = _SEPARATOR.split(match)[-1]
        is_alone = match == whole
        if is_alone or name != match or _MIXED.search(match):
            symbols[Symbol(name, is_alone)] += 1
    return QueryTerms(terms, content, tuple(symbols))
