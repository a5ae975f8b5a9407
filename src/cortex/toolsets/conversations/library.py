"""The documents of the store as search holds them in memory, brought up to date when asked for."""

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from cortex.toolsets.conversations.documents import NAMED, Documents
from cortex.toolsets.conversations.queries import ConversationQueries, Title
from cortex.toolsets.conversations.ranking import EventClass


class Library:
    """Knows every document, and what each session is called."""

    def __init__(self, queries: ConversationQueries) -> None:
        self._queries = queries
        self._documents = Documents()
        self._titles: dict[str, Title] = {}
        self._broad: dict[int, int] = {}
        self._broad_of = 0  # how many documents there were when it was learnt
        self._is_stale = True
        self._turn = anyio.Lock()

    def mark_stale(self) -> None:
        """Say that events came or went."""
        self._is_stale = True

    async def documents(self) -> Documents:
        """Return the documents as they are now."""
        if self._is_stale:
            async with self._turn:
                if self._is_stale:
                    await self._refresh()
        return self._documents

    def title_of(self, session_id: str) -> str:
        """Return what a session is called, nothing if it has no name."""
        title = self._titles.get(session_id)
        return title.text if title else ""

    def about_how_many(self, key: int) -> int:
        """Return about how many postings a term has; 0 if they are few."""
        return self._broad.get(key, 0)

    async def _refresh(self) -> None:
        self._is_stale = False
        try:
            await self._read_on()
            if await self._queries.count_documents() < len(self._documents):
                # Some were removed; which, only reading all of them tells.
                self._documents = Documents()
                self._titles.clear()
                await self._read_on()
            if not self._broad_of * 0.8 <= len(self._documents) <= self._broad_of * 1.2:
                self._broad = await self._queries.broad_keys()
                self._broad_of = len(self._documents)
        except BaseException:
            self._is_stale = True
            raise

    async def _read_on(self) -> None:
        """Add what came after the documents that are known."""
        known = self._documents
        rows = await self._queries.documents(known.last_batch)
        if not len(rows):
            return
        names: Mapping[int, str] = {}
        if _has_unknown_names(rows, known):
            names = await self._queries.names(known.last_batch)
        if np.any(rows["class"] == EventClass.TITLE):
            await self._learn_titles(known.last_batch)
        self._documents = await anyio.to_thread.run_sync(known.with_rows, rows, names)

    async def _learn_titles(self, after_batch: int) -> None:
        for title in await self._queries.titles(after_batch):
            older = self._titles.get(title.session_id)
            if older is None or older.at <= title.at:
                self._titles[title.session_id] = title


def _has_unknown_names(rows: NDArray[Any], known: Documents) -> bool:
    return any(
        int(hashed) not in known.names for column in NAMED for hashed in np.unique(rows[column])
    )
