"""A project as it was at one moment, and the search in it. Built once, then only read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cortex.toolsets.code import ranking
from cortex.toolsets.code.files import Files
from cortex.toolsets.code.postings import Pieces, Postings, Vocabulary
from cortex.toolsets.code.ranking import Floats, Ints, Mask, Ranked
from cortex.toolsets.code.terms import QueryTerms

DEFINITION = "="
"""Before a name, it makes the term that says: this chunk defines it."""

_TINY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What results must be: all of the tags, one of the types, in a path that matches."""

    tags: tuple[str, ...] = ()
    chunk_types: tuple[str, ...] = ()
    path: str = ""

    @property
    def is_any(self) -> bool:
        """Whether anything is left out."""
        return bool(self.tags or self.chunk_types or self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """A vector of length 1 for each chunk that has one, zeros for the others, and their model."""

    rows: Floats
    is_there: Mask
    model: str

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return int(self.rows.shape[1])

    @property
    def count(self) -> int:
        """How many chunks have one."""
        return int(np.count_nonzero(self.is_there))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything a search needs: chunks by number, their words, files, tags and vectors."""

    vocabulary: Vocabulary
    postings: Postings
    files: Files
    file_of: Ints
    standing: Floats
    types: Sequence[str]
    type_of: NDArray[np.uint8]
    tags: Mapping[str, Ints]
    stored: Pieces
    # Hashes by which the next state knows what is unchanged: of the chunk's id, of what it says,
    # and of its whole entry in the file.
    ids: Sequence[int]
    contents: Sequence[int]
    by_content: Mapping[int, int]
    by_entry: Mapping[int, int]
    vectors: Vectors | None = None
    problems: Sequence[str] = field(default_factory=tuple[str, ...])

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def _norm(self) -> Floats:
        return ranking.norm(self.postings.words.astype(np.float32))

    @cached_property
    def _file_norm(self) -> Floats:
        words = np.bincount(self.file_of, self.postings.words, len(self.files))
        return ranking.norm(words.astype(np.float32))

    def kept(self, filters: Filters) -> Mask | None:
        """Return which chunks the filters leave, or None where they leave all."""
        if not filters.is_any:
            return None
        keep = np.ones(len(self), dtype=np.bool_)
        if filters.chunk_types:
            wanted = [n for n, name in enumerate(self.types) if name in filters.chunk_types]
            keep &= np.isin(self.type_of, wanted)
        for tag in filters.tags:
            tagged = np.zeros(len(self), dtype=np.bool_)
            tagged[self.tags.get(tag.casefold(), np.empty(0, np.int32))] = True
            keep &= tagged
        if filters.path and len(self):
            keep &= self.files.matching(filters.path)[self.file_of]
        return keep

    def ranked(
        self, query: QueryTerms, vector: Floats | None, filters: Filters, limit: int
    ) -> Ranked:
        """Return the best chunks for a query, from those that the filters leave."""
        keep = self.kept(filters)
        parts = self._parts(query, vector)
        score = parts["words"]
        if "vector" in parts and self.vectors is not None:
            share = ranking.vector_share(is_symbol=query.is_symbol) * self.vectors.is_there
            score = (1 - share) * score + share * parts["vector"]
        # What the rules add is measured by the best that words and vectors found.
        top = np.float32(score.max(initial=0.0))
        parts["path"] *= top * (score > 0)
        parts["defines"] *= top
        score = (score + parts["path"] + parts["defines"]) * self.standing
        if keep is not None:
            score = np.where(keep, score, np.float32(0.0))
        chunks, worth = ranking.in_order(score, self.file_of, limit)
        if keep is not None and len(chunks) < limit:
            # What the filters leave is what was asked for, even if no word of it fits.
            rest = np.setdiff1d(np.flatnonzero(keep), chunks)[: limit - len(chunks)]
            chunks = np.concatenate([chunks, rest.astype(np.int32)])
            worth = np.concatenate([worth, np.zeros(len(rest), np.float32)])
        return Ranked(chunks, worth, {name: part[chunks] for name, part in parts.items()})

    def _parts(self, query: QueryTerms, vector: Floats | None) -> dict[str, Floats]:
        words = self._words(query)
        said = self.files.said(query.content) if len(self) else np.zeros(0, np.float32)
        parts = {
            "words": words / np.float32(max(words.max(initial=0.0), _TINY)),
            "path": np.float32(ranking.PATH_SHARE) * said[self.file_of],
            "defines": self._defines(query),
            "standing": self.standing,
        }
        if vector is not None and self.vectors is not None:
            parts["vector"] = _closeness(self.vectors.rows @ vector)
        return parts

    def _words(self, query: QueryTerms) -> Floats:
        """Score every chunk by its words, and by those of the file it stands in."""
        score = np.zeros(len(self), dtype=np.float32)
        files = np.zeros(len(self.files), dtype=np.float32)
        for term in query.terms:
            chunks, counts = self.postings.of_term(self.vocabulary.find(term))
            if not len(chunks):
                continue
            weight = ranking.weight_of(term, query.content)
            worth = np.float32(weight * ranking.idf(len(self), len(chunks)))
            score[chunks] += worth * ranking.saturated(counts, self._norm[chunks])
            of_files = np.bincount(self.file_of[chunks], counts, len(files)).astype(np.float32)
            holding = int(np.count_nonzero(of_files))
            worth = np.float32(weight * ranking.idf(len(files), holding))
            files += worth * ranking.saturated(of_files, self._file_norm)
        return score + np.float32(ranking.FILE_SHARE) * files[self.file_of]

    def _defines(self, query: QueryTerms) -> Floats:
        """Return what each chunk earns for defining a name that the query holds."""
        earned = np.zeros(len(self), dtype=np.float32)
        for symbol in query.symbols:
            chunks = self._defining(symbol.name.lower())
            share = np.full(len(chunks), ranking.OTHER_CASE, dtype=np.float32)
            share[np.isin(chunks, self._defining(symbol.name))] = 1.0
            share[self.files.named(self.file_of[chunks].tolist(), symbol.name)] *= ranking.OWN_FILE
            worth = ranking.DEFINES if symbol.is_alone else ranking.DEFINES_NAMED
            earned[chunks] += np.float32(worth) * share
        return earned

    def _defining(self, name: str) -> Ints:
        return self.postings.of_term(self.vocabulary.find(DEFINITION + name))[0]


def _closeness(near: Floats) -> Floats:
    """Return how near each vector is: 1 for the nearest, 0 from the average on."""
    average, best = near.mean() if len(near) else 0.0, near.max(initial=0.0)
    above = (near - np.float32(average)) / np.float32(max(best - average, _TINY))
    return np.clip(above, np.float32(0.0), np.float32(1.0))
