"""One row for every search and one for every hit: queued, and written when there is time."""

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

import anyio

from cortex.clock import Clock
from cortex.errors import CortexError
from cortex.store.engine import Engine
from cortex.text.terms import query_terms
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.service import Found, Search

log = logging.getLogger(__name__)

# Searches that wait to be written; beyond this the oldest are let go, and counted.
_MAX_WAITING = 1_000
# One part for many searches: each insert is a file of the store.
_GATHER_S = 1.0
_LAST_WRITE_S = 2.0
_MAX_16 = 2**16 - 1
_QUERY_COLUMNS = (
    "ts query_id source session_hint raw_query normalized_terms result_limit min_should_match"
    " min_score include_tool_events exclude_codex_mcp response_ms result_count"
).split()
_HIT_COLUMNS = "ts query_id rank event_uid session_id score bm25 matched_terms".split()

Row = tuple[Any, ...]


class SearchLog:
    """Keeps what was searched for, secrets redacted. Never in the way of an answer."""

    def __init__(
        self, engine: Engine, redactor: Redactor, clock: Clock, *, is_async: bool, max_terms: int
    ) -> None:
        self._engine = engine
        self._redactor = redactor
        self._clock = clock
        self._is_async = is_async
        self._max_terms = max_terms
        self._waiting: deque[tuple[Row, list[Row]]] = deque(maxlen=_MAX_WAITING)
        self._wake = anyio.Event()
        self._turn = anyio.Lock()
        self.lost = 0

    async def note(self, found: Found, wanted: Search, source: str) -> None:
        """Remember one search; where the settings say so, write it before the answer goes out."""
        if len(self._waiting) == _MAX_WAITING:
            self.lost += 1
        self._waiting.append((self._query_row(found, wanted, source), self._hit_rows(found)))
        if self._is_async:
            self._wake.set()
        else:
            await self.write()

    async def write(self) -> None:
        """Write everything that waits; what cannot be written is let go."""
        async with self._turn:
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not rows:
                return
            hits = [hit for _, of_query in rows for hit in of_query]
            try:
                queries = [query for query, _ in rows]
                await self._engine.insert("search_query_log", _QUERY_COLUMNS, queries)
                await self._engine.insert("search_hit_log", _HIT_COLUMNS, hits)
            except CortexError as error:
                self.lost += len(rows)
                log.warning("%d searches are not in the log: %s", len(rows), error)

    async def run(self) -> None:
        """Write what was searched for, for ever."""
        try:
            while True:
                await self._wake.wait()
                await anyio.sleep(_GATHER_S)
                self._wake = anyio.Event()
                await self.write()
        finally:
            with anyio.move_on_after(_LAST_WRITE_S, shield=True):
                await self.write()

    def counts(self) -> Mapping[str, int]:
        """Return how many searches wait to be written, and how many never will be."""
        return {"waiting": len(self._waiting), "lost": self.lost}

    def _query_row(self, found: Found, wanted: Search, source: str) -> Row:
        query = self._redactor.redact(found.query).text
        # Words of a query with a secret in it are those of what is left of it.
        terms = found.terms if query == found.query else query_terms(query, self._max_terms)
        return (
            self._clock.now(),
            found.query_id,
            source[:64],
            wanted.session_id,
            query,
            list(terms),
            min(wanted.limit, _MAX_16),
            min(wanted.min_should_match, _MAX_16),
            wanted.min_score,
            wanted.include_tool_events,
            wanted.exclude_own,
            found.took_ms,
            len(found.hits),
        )

    def _hit_rows(self, found: Found) -> list[Row]:
        now = self._clock.now()
        return [
            (
                now,
                found.query_id,
                rank,
                hit.event["event_uid"],
                hit.event["session_id"],
                hit.score,
                hit.bm25,
                hit.matched_terms,
            )
            for rank, hit in enumerate(found.hits, 1)
        ]
