"""The postings that one search has read so far: as few statements as will do."""

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortex.toolsets.conversations.documents import Documents, Filters, Places
from cortex.toolsets.conversations.queries import ConversationQueries, key_of
from cortex.toolsets.conversations.ranking import RANKED
from cortex.toolsets.conversations.search import Postings


class Reading:
    """Postings of some terms of a query, and how many documents have each of the terms."""

    def __init__(
        self,
        queries: ConversationQueries,
        documents: Documents,
        terms: Sequence[str],
        filters: Filters,
    ) -> None:
        self._queries = queries
        self._documents = documents
        self._terms = terms
        self._filters = filters
        ranks = (True,) if max(filters.classes) <= RANKED else (True, False)
        self._keys = {
            key_of(term, is_ranked=is_ranked): i
            for i, term in enumerate(terms)
            for is_ranked in ranks
        }
        self._read: set[int] = set()
        self._postings = Postings.none()
        self.frequencies: dict[str, int] = {}

    def has(self, term: int) -> bool:
        """Tell whether the postings of a term are here."""
        return term in self._read

    def postings(self, terms: Iterable[int] | None = None) -> Postings:
        """Return what was read, of all terms or of some."""
        if terms is None or self._read <= set(terms):
            return self._postings
        return self._postings.only(np.isin(self._postings.term, list(terms)))

    async def read(self, terms: Iterable[int]) -> None:
        """Read the postings of these terms, and count those of which nothing is known."""
        wanted = set(terms)
        if not wanted:
            return
        counted = {
            key_of(term, is_ranked=True): term
            for i, term in enumerate(self._terms)
            if i not in wanted and term not in self.frequencies
        }
        rows = await self._queries.postings(self._keys_of(wanted), list(counted))
        is_count = rows["tf"] == 0
        postings = self._of(rows[~is_count] if counted else rows)
        is_ranked = self._documents.columns["class"][postings.place] <= RANKED
        counts = np.bincount(postings.term[is_ranked], minlength=len(self._terms))
        self.frequencies |= {self._terms[i]: int(counts[i]) for i in wanted}
        self.frequencies |= dict.fromkeys(counted.values(), 0)
        self.frequencies |= {counted[int(row["key"])]: int(row["doc_id"]) for row in rows[is_count]}
        passing = self._documents.passing(postings.place, self._filters)
        self._postings = self._postings.and_those(postings.only(passing))
        self._read |= wanted

    async def postings_in(self, places: Places, terms: Iterable[int]) -> Postings:
        """Return the postings of these terms in these documents."""
        wanted = {i for i in terms if self.frequencies[self._terms[i]]}
        here = self._postings.only(
            np.isin(self._postings.term, list(wanted)) & np.isin(self._postings.place, places)
        )
        rows = await self._queries.postings_in(
            self._keys_of(wanted - self._read),
            self._documents.columns["doc_id"][places].tolist(),
        )
        return here.and_those(self._of(rows))

    def _keys_of(self, terms: Container[int]) -> list[int]:
        return [key for key, i in self._keys.items() if i in terms]

    def _of(self, rows: NDArray[Any]) -> Postings:
        """Read an answer of the store; documents not known yet are left out."""
        place, is_known = self._documents.places(rows["doc_id"])
        term = np.zeros(len(rows), np.intp)
        for key, i in self._keys.items():
            term[rows["key"] == key] = i
        return Postings(term, place, rows["tf"]).only(is_known)
