"""The files of a project as search sees them: what their paths say, and which a glob takes in."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile

import numpy as np

from cortex.toolsets.code import ranking
from cortex.toolsets.code.ranking import Floats, Mask
from cortex.toolsets.code.terms import PathTerms, file_stem

_NOT_PLAIN = re.compile(r"[^a-z0-9]")
_GLOB_PIECE = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_GLOB_PIECES = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, kw_only=True)
class Files:
    """All files by number."""

    paths: Sequence[str]
    terms: Sequence[PathTerms]

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def _by_stem(self) -> dict[str, list[int]]:
        return _inverted(terms.stem for terms in self.terms)

    @cached_property
    def _by_folder(self) -> dict[str, list[int]]:
        return _inverted(terms.folders for terms in self.terms)

    @cached_property
    def _by_part(self) -> dict[str, list[int]]:
        return _inverted(terms.parts for terms in self.terms)

    @cached_property
    def _parts(self) -> Floats:
        return np.array([max(len(terms.parts), 1) for terms in self.terms], dtype=np.float32)

    @cached_property
    def _stems(self) -> list[str]:
        return sorted(self._by_stem)

    def said(self, content: Iterable[str]) -> Floats:
        """Return how much a path says of a query, and more where the query says its whole name."""
        words = sorted(content)
        total = np.zeros(len(self), dtype=np.float32)
        alike: set[str] = set()
        for word in words:
            worth = np.zeros(len(self), dtype=np.float32)
            worth[self._by_folder.get(word, [])] = ranking.FOLDER_SHARE
            found = self._alike(word)
            for stem in found:
                worth[self._by_stem[stem]] = 1.0
            total += worth
            alike.update(found)
        named = np.zeros(len(self), dtype=np.float32)
        for stem in alike:
            named[self._by_part.get(stem, [])] += 1
        share = total / np.float32(max(len(words), 1))
        return share + np.float32(ranking.WHOLE_NAME) * named / self._parts

    def named(self, numbers: Iterable[int], name: str) -> Mask:
        """Tell of each of these files whether it is called by a name, or by its plural."""
        wanted = _plain(name)
        stems = (_plain(file_stem(self.paths[number])) for number in numbers)
        return np.array([wanted in (stem, stem.rstrip("s")) for stem in stems], dtype=np.bool_)

    def matching(self, pattern: str) -> Mask:
        """Tell which paths a glob takes in: a file or a folder; without `/`, of that name."""
        matches = _glob(pattern)
        return np.array([matches(path) for path in self.paths], dtype=np.bool_)

    def _alike(self, word: str) -> list[str]:
        """Return the words of file names that begin like this one, or that it begins with."""
        if len(word) < ranking.MIN_PREFIX:
            return [word] if word in self._by_stem else []
        shorter = (word[:end] for end in range(ranking.MIN_PREFIX, len(word)))
        found = [stem for stem in shorter if stem in self._by_stem]
        begin = bisect_left(self._stems, word)
        longer = takewhile(lambda s: s.startswith(word), islice(self._stems, begin, None))
        return [*found, *longer]


def _inverted(terms: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, of_file in enumerate(terms):
        for term in of_file:
            found.setdefault(term, []).append(number)
    return found


def _plain(name: str) -> str:
    return _NOT_PLAIN.sub("", name.lower())


def _glob(pattern: str) -> Callable[[str], bool]:
    pattern = pattern.strip("/")
    pieces = [_GLOB_PIECES.get(piece) or re.escape(piece) for piece in _GLOB_PIECE.findall(pattern)]
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    compiled = re.compile(f"{anywhere}{''.join(pieces)}(?:/.*)?", re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None
