"""The rules of search and open: what is asked becomes statements, rows become answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cortex.clock import Clock, IdSource
from cortex.errors import InvalidParams
from cortex.settings.models import Bm25Settings
from cortex.toolsets.conversations.queries import (
    ConversationQueries,
    Corpus,
    Filters,
    order_of,
)
from cortex.toolsets.conversations.ranking import EventClass
from cortex.toolsets.conversations.search import CANDIDATES, Query, Ranker, Scored, in_order
from cortex.toolsets.conversations.snippet import snippet
from cortex.toolsets.conversations.terms import query_terms

_SAFE = re.compile(r"[A-Za-z0-9._:@/-]{1,256}")
# Postings read to choose candidates; the words of a query that are everywhere complete them.
_MAX_ROWS = 60_000
# Documents read beyond the limit, since some turn out to say the same.
_SPARE = 10
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
        self._corpus: Corpus | None = None

    def forget_statistics(self) -> None:
        """Say that events came or went: what was counted of them is counted again."""
        self._corpus = None

    async def search(self, wanted: Search) -> Found:
        """Find events by their words, best first."""
        began = self._clock.monotonic()
        terms = self._terms(wanted)
        corpus = self._corpus = self._corpus or await self._queries.corpus()
        hits: list[Hit] = []
        if corpus.docs:
            query = Query.of(terms, await self._queries.frequencies(terms))
            scored = await self._scored(query, corpus, wanted)
            hits = await self._hits(scored, query, corpus, wanted)
        return Found(
            query_id=self._ids.new(),
            query=wanted.query.strip(),
            terms=terms,
            docs=corpus.docs,
            average_words=round(max(corpus.words / max(corpus.docs, 1), 1.0), 2),
            took_ms=round((self._clock.monotonic() - began) * 1000, 2),
            hits=hits,
        )

    async def open(self, event_uid: str, before: int, after: int) -> Window:
        """Return the trace around one event; an unknown one is an answer, not an error."""
        uid = event_uid.strip()
        if not uid:
            raise InvalidParams("event_uid cannot be empty")
        if not _SAFE.fullmatch(uid):
            raise InvalidParams("event_uid contains unsupported characters")
        doc_id = await self._queries.locate(uid)
        if doc_id is None:
            return Window(uid, before, after)
        events = await self._queries.window(doc_id, before, after)
        shown = [{**event, "event_order": order_of(event["doc_id"])} for event in events]
        target = next(event for event in shown if event["doc_id"] == doc_id)
        # A stream belongs to one session, but its number is a hash: better to look.
        same = [event for event in shown if event["session_id"] == target["session_id"]]
        return Window(uid, before, after, target, same)

    def _terms(self, wanted: Search) -> list[str]:
        if not wanted.query.strip():
            raise InvalidParams("query cannot be empty")
        if wanted.session_id and not _SAFE.fullmatch(wanted.session_id):
            raise InvalidParams("session_id contains unsupported characters")
        terms = query_terms(wanted.query, self._settings.max_query_terms)
        if not terms:
            raise InvalidParams("query has no searchable terms")
        return terms

    async def _scored(self, query: Query, corpus: Corpus, wanted: Search) -> Scored:
        ranker = Ranker(query, corpus, self._settings)
        filters = wanted.filters()
        is_plain = self._settings.ranking == "plain"
        chosen = list(range(len(query.terms))) if is_plain else query.essential(_MAX_ROWS)
        if wanted.include_tool_events or not chosen:
            # What tools said is counted apart: frequencies do not tell how many rows these are.
            chosen = list(range(len(query.terms)))
        found = await self._postings(query, chosen, filters)
        if is_plain:
            return ranker.plain(found)
        candidates = ranker.candidates(found, max(CANDIDATES, wanted.limit * 3))
        rest = [i for i in range(len(query.terms)) if i not in chosen and query.frequencies[i]]
        completed = await self._postings(query, rest, filters, candidates.tolist())
        return ranker.ranked(found, completed, candidates)

    async def _postings(
        self, query: Query, chosen: Sequence[int], filters: Filters, docs: list[int] | None = None
    ) -> Any:
        postings = await self._queries.postings([query.terms[i] for i in chosen], filters, docs)
        return postings.numbered(chosen)

    async def _hits(
        self, scored: Scored, query: Query, corpus: Corpus, wanted: Search
    ) -> list[Hit]:
        need = min(wanted.min_should_match, len(query.terms))
        keep = (scored.matched >= need) & (scored.score >= wanted.min_score)
        scored = scored.only(keep).best(wanted.limit + _SPARE)
        events = await self._queries.events(scored.doc_id.tolist())
        moments = {doc: event["event_ts"].timestamp() for doc, event in events.items()}
        uids = {doc: event["event_uid"] for doc, event in events.items()}
        hits: list[Hit] = []
        said: set[tuple[str, str, str]] = set()
        for i in in_order(scored, moments, uids):
            event = events[int(scored.doc_id[i])]
            text = str(event["text_content"]) or str(event["title"])
            # One message written twice by an agent is one hit.
            name = (event["session_id"], event["actor_kind"], " ".join(text.split()))
            if name in said:
                continue
            said.add(name)
            hits.append(
                Hit(
                    event,
                    score=float(scored.score[i]),
                    bm25=float(scored.bm25[i]),
                    matched_terms=int(scored.matched[i]),
                    doc_len=int(scored.doc_len[i]),
                    snippet=snippet(text, query.terms, self._preview_chars),
                    title=corpus.titles.get(event["session_id"], ""),
                )
            )
            if len(hits) == wanted.limit:
                break
        return hits
