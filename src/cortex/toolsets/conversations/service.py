"""The rules of search and open: what is asked becomes statements, rows become answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from cortex.clock import Clock, IdSource
from cortex.errors import InvalidParams
from cortex.settings.models import Bm25Settings
from cortex.text.terms import query_terms
from cortex.toolsets.conversations.documents import Documents, Filters
from cortex.toolsets.conversations.library import Library
from cortex.toolsets.conversations.queries import ConversationQueries, key_of, order_of
from cortex.toolsets.conversations.ranking import EventClass
from cortex.toolsets.conversations.reading import Reading
from cortex.toolsets.conversations.search import (
    CANDIDATES,
    Query,
    Ranker,
    Scored,
    first_of_each,
    in_order,
)
from cortex.toolsets.conversations.snippet import MAX_LOOKED_AT, snippet

_SAFE = re.compile(r"[A-Za-z0-9._:@/-]{1,256}")
# Postings read to choose candidates; the words of a query that are everywhere complete them.
_MAX_ROWS = 40_000
_RANKED_CLASSES = tuple(int(c) for c in EventClass if c <= EventClass.SPOKEN)
_TOOL_CLASSES = tuple(int(c) for c in EventClass if c <= EventClass.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for."""

    query: str
    limit: int
    min_score: float
    min_should_match: int
    include_tool_events: bool = False
    exclude_own: bool = True
    session_id: str = ""
    harness: str = ""
    project: str = ""
    since: datetime | None = None
    until: datetime | None = None
    event_kinds: tuple[str, ...] = ()

    def filters(self) -> Filters:
        """Return what the postings are narrowed to."""
        classes = _TOOL_CLASSES if self.include_tool_events else _RANKED_CLASSES
        if self.include_tool_events and not self.exclude_own:
            classes = (*classes, int(EventClass.OWN))
        return Filters(
            classes=classes,
            session_id=self.session_id,
            harness=self.harness,
            project=self.project,
            since=self.since,
            until=self.until,
            event_kinds=self.event_kinds,
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """One event that was found."""

    event: Mapping[str, Any]
    score: float
    bm25: float
    matched_terms: int
    doc_len: int
    snippet: str
    title: str


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a search."""

    query_id: str
    query: str
    terms: Sequence[str]
    docs: int
    average_words: float
    took_ms: float
    hits: Sequence[Hit] = field(default_factory=tuple[Hit, ...])


@dataclass(frozen=True, slots=True)
class Window:
    """An event and what stands around it; no events, no such event."""

    event_uid: str
    before: int
    after: int
    target: Mapping[str, Any] | None = None
    events: Sequence[Mapping[str, Any]] = field(default_factory=tuple[Mapping[str, Any], ...])


class ConversationsService:
    """Answers what was said and done in any session of any agent."""

    def __init__(
        self,
        queries: ConversationQueries,
        settings: Bm25Settings,
        clock: Clock,
        ids: IdSource,
        *,
        preview_chars: int,
    ) -> None:
        self._queries = queries
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._preview_chars = preview_chars
        self._library = Library(queries)

    def forget_statistics(self) -> None:
        """Say that events came or went: what was counted of them is counted again."""
        self._library.mark_stale()

    async def warm(self) -> None:
        """Read what the first search needs."""
        await self._library.documents()

    async def search(self, wanted: Search) -> Found:
        """Find events by their words, best first."""
        began = self._clock.monotonic()
        terms = self._terms(wanted)
        documents = await self._library.documents()
        hits: list[Hit] = []
        if documents.ranked or wanted.include_tool_events:
            query, scored = await self._scored(terms, documents, wanted)
            hits = await self._hits(scored, query, documents, wanted)
        return Found(
            query_id=self._ids.new(),
            query=wanted.query.strip(),
            terms=terms,
            docs=documents.ranked,
            average_words=round(max(documents.words / max(documents.ranked, 1), 1.0), 2),
            took_ms=round((self._clock.monotonic() - began) * 1000, 2),
            hits=hits,
        )

    async def open(
        self, event_uid: str, before: int, after: int, *, with_records: bool = False
    ) -> Window:
        """Return the trace around one event; an unknown one is an answer, not an error."""
        uid = event_uid.strip()
        if not uid:
            raise InvalidParams("event_uid cannot be empty")
        if not _SAFE.fullmatch(uid):
            raise InvalidParams("event_uid contains unsupported characters")
        events = await self._queries.window(uid, before, after)
        for event in events:
            event["event_order"] = order_of(event["doc_id"])
        target = next((event for event in events if event["event_uid"] == uid), None)
        if target is None:
            return Window(uid, before, after)
        if with_records:
            await self._add_records(target["session_id"], events)
        return Window(uid, before, after, target, events)

    async def _add_records(self, session_id: str, events: Sequence[dict[str, Any]]) -> None:
        first, last = events[0]["doc_id"], events[-1]["doc_id"]
        records = await self._queries.records(session_id, first, last)
        for event in events:
            of_event = (raw for doc_ids, raw in records if event["doc_id"] in doc_ids)
            event["payload_json"] = next(of_event, "")

    def _terms(self, wanted: Search) -> list[str]:
        if not wanted.query.strip():
            raise InvalidParams("query cannot be empty")
        if wanted.session_id and not _SAFE.fullmatch(wanted.session_id):
            raise InvalidParams("session_id contains unsupported characters")
        terms = query_terms(wanted.query, self._settings.max_query_terms)
        if not terms:
            raise InvalidParams("query has no searchable terms")
        return terms

    async def _scored(
        self, terms: Sequence[str], documents: Documents, wanted: Search
    ) -> tuple[Query, Scored]:
        reading = Reading(self._queries, documents, terms, wanted.filters())
        is_plain = self._settings.ranking == "plain"
        await reading.read(range(len(terms)) if is_plain else self._first_read(terms))
        query = Query.of(terms, reading.frequencies)
        ranker = Ranker(query, documents, self._settings)
        if is_plain:
            return query, ranker.plain(reading.postings())
        essential = query.essential(_MAX_ROWS) or range(len(terms))
        await reading.read([i for i in essential if not reading.has(i)])
        found = reading.postings(essential)
        candidates = ranker.candidates(found, _most_candidates(wanted))
        rest = [i for i in range(len(terms)) if i not in essential]
        completed = await reading.postings_in(candidates, rest)
        return query, ranker.ranked(found, completed, candidates)

    def _first_read(self, terms: Sequence[str]) -> list[int]:
        """Return the terms whose postings are read at once; the others are only counted."""
        guesses = [self._library.about_how_many(key_of(t, is_ranked=True)) for t in terms]
        chosen, rows = [], 0
        for i in sorted(range(len(terms)), key=guesses.__getitem__):
            rows += guesses[i]
            if chosen and rows > _MAX_ROWS:
                break
            chosen.append(i)
        return chosen

    async def _hits(
        self, scored: Scored, query: Query, documents: Documents, wanted: Search
    ) -> list[Hit]:
        need = min(wanted.min_should_match, len(query.terms))
        scored = scored.only((scored.matched >= need) & (scored.score >= wanted.min_score))
        scored = first_of_each(scored.best(_most_candidates(wanted)), documents)
        order = in_order(scored, documents, wanted.limit)
        scored = scored.only(order)
        doc_ids = documents.columns["doc_id"][scored.place].tolist()
        events = {
            event["doc_id"]: event for event in await self._queries.events(doc_ids, MAX_LOOKED_AT)
        }
        hits = [
            Hit(
                event,
                score=float(scored.score[i]),
                bm25=float(scored.bm25[i]),
                matched_terms=int(scored.matched[i]),
                doc_len=int(documents.columns["doc_len"][scored.place[i]]),
                snippet=snippet(
                    event["text_content"] or event["title"], query.subjects, self._preview_chars
                ),
                title=self._library.title_of(event["session_id"]),
            )
            for i, doc_id in enumerate(doc_ids)
            if (event := events.get(doc_id)) is not None  # removed a moment ago
        ]
        return _by_uid_where_equal(hits)[: wanted.limit]


def _most_candidates(wanted: Search) -> int:
    return max(CANDIDATES, wanted.limit * 3)


def _by_uid_where_equal(hits: Sequence[Hit]) -> list[Hit]:
    """Order by uid what neither score nor time tells apart."""
    groups = groupby(hits, key=lambda hit: (hit.score, hit.event["event_ts"]))
    return [
        hit for _, equal in groups for hit in sorted(equal, key=lambda hit: hit.event["event_uid"])
    ]
