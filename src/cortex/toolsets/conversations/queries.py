"""All SQL of search and open: the postings of a few terms, a document, a window around an event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortex.store.engine import Engine
from cortex.toolsets.conversations.ingest.batch import POSITION_BITS, POSITION_MASK, session_hash
from cortex.toolsets.conversations.ranking import RANKED

Ints = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Corpus:
    """What all ranked events are together: the constants of the formula."""

    docs: int = 0
    words: int = 0
    sessions: Mapping[int, int] = field(default_factory=dict[int, int])  # words of each
    titles: Mapping[str, str] = field(default_factory=dict[str, str])  # by session id


@dataclass(frozen=True, slots=True)
class Postings:
    """Columns of equal length: which term, in which document, how often."""

    term: Ints
    doc_id: Ints
    position: Ints
    session: Ints
    tf: Ints
    doc_len: Ints

    def numbered(self, places: Sequence[int]) -> "Postings":
        """Return the same with terms counted as in the whole query, not as in what was asked."""
        whole = np.array(places, dtype=np.uint64)
        return replace(self, term=whole[self.term.astype(np.intp)] if len(places) else self.term)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a search is narrowed to; an empty one says nothing."""

    classes: tuple[int, ...]
    session_id: str = ""
    harness: str = ""
    project: str = ""
    since: datetime | None = None
    until: datetime | None = None
    event_kinds: tuple[str, ...] = ()

    def condition(self) -> tuple[str, dict[str, Any]]:
        """Return the words of a WHERE over postings, and their values."""
        words = ["class IN {classes:Array(UInt8)}"]
        values: dict[str, Any] = {"classes": list(self.classes)}
        if self.session_id:
            words.append("session = {session:UInt64}")
            values["session"] = session_hash(self.session_id)
        inner: list[str] = []
        for name, value, test in (
            ("harness", self.harness, "harness = {harness:String}"),
            ("project", self.project, "startsWith(project, {project:String})"),
            ("since", self.since, "event_ts >= {since:DateTime64(3, 'UTC')}"),
            ("until", self.until, "event_ts < {until:DateTime64(3, 'UTC')}"),
            ("kinds", list(self.event_kinds), "event_kind IN {kinds:Array(String)}"),
        ):
            if value:
                inner.append(test)
                values[name] = value
        if inner:
            found = f"SELECT doc_id FROM search_documents WHERE {' AND '.join(inner)}"  # noqa: S608
            words.append(f"doc_id IN ({found})")
        return " AND ".join(words), values


_EVENT = (
    "doc_id, event_uid, session_id, event_ts, turn_seq, source_name, harness, inference_provider,"
    " source_file, source_generation, source_line_no, event_kind, payload_type, actor_kind,"
    " item_id, op_status, tool_name, tool_call_id, tool_phase, tool_error, model, is_substream,"
    " agent_label, project, title, text_content"
)


class ConversationQueries:
    """What search and open ask of the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def corpus(self) -> Corpus:
        """Count the ranked events, their words, and those of each session."""
        found = await self._engine.numbers(
            "SELECT session, count() AS docs, sum(doc_len) AS words FROM search_documents"
            " WHERE class <= {ranked:UInt8} AND doc_len > 0 GROUP BY session",
            {"ranked": int(RANKED)},
        )
        rows: list[list[int]] = found.tolist()
        sessions = {session: words for session, _, words in rows}
        titled = await self._engine.query(
            "SELECT session_id, argMax(title, (event_ts, doc_id)) AS newest FROM events"
            " WHERE title != '' GROUP BY session_id"
        )
        titles = {str(row["session_id"]): str(row["newest"]) for row in titled}
        return Corpus(sum(row[1] for row in rows), sum(sessions.values()), sessions, titles)

    async def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many ranked events each term occurs."""
        found = await self._engine.query(
            "SELECT term, count() AS docs FROM search_postings"
            " WHERE term IN {terms:Array(String)} AND class <= {ranked:UInt8} GROUP BY term",
            {"terms": list(terms), "ranked": int(RANKED)},
        )
        return {str(row["term"]): int(row["docs"]) for row in found}

    async def postings(
        self, terms: Sequence[str], filters: Filters, doc_ids: Sequence[int] | None = None
    ) -> Postings:
        """Return the postings of these terms, of all documents or of some."""
        if not terms or doc_ids == []:
            return Postings(*np.empty((6, 0), dtype=np.uint64))
        where, values = filters.condition()
        values["terms"] = list(terms)
        if doc_ids is not None:
            where += " AND doc_id IN {docs:Array(UInt64)}"
            values["docs"] = list(doc_ids)
        found = await self._engine.numbers(
            "SELECT toUInt64(indexOf({terms:Array(String)}, term) - 1) AS term_no, doc_id,"  # noqa: S608
            " toUInt64(position), session, toUInt64(tf), toUInt64(doc_len) FROM search_postings"
            f" WHERE term IN {{terms:Array(String)}} AND {where}",
            values,
        )
        return Postings(*(found if found.size else np.empty((0, 6), dtype=np.uint64)).T)

    async def events(self, doc_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the events of these numbers."""
        found = await self._engine.query(
            f"SELECT {_EVENT} FROM events WHERE doc_id IN {{docs:Array(UInt64)}}",  # noqa: S608
            {"docs": list(doc_ids)},
        )
        return {int(row["doc_id"]): row for row in found}

    async def locate(self, event_uid: str) -> int | None:
        """Return the number of an event, or None if there is no such event."""
        found = await self._engine.query(
            "SELECT doc_id FROM events WHERE event_uid = {uid:String} LIMIT 1", {"uid": event_uid}
        )
        return int(found[0]["doc_id"]) if found else None

    async def window(self, doc_id: int, before: int, after: int) -> list[dict[str, Any]]:
        """Return an event and its neighbours in the same session, in order."""
        first = doc_id - min(before, doc_id & POSITION_MASK)
        last = min(doc_id + after, doc_id | POSITION_MASK)
        return await self._engine.query(
            f"SELECT {_EVENT}, payload_json FROM events"  # noqa: S608
            " WHERE doc_id BETWEEN {first:UInt64} AND {last:UInt64} ORDER BY doc_id",
            {"first": first, "last": last},
        )


def order_of(doc_id: int) -> int:
    """Return the place of an event in its stream, counted from 1."""
    return (doc_id & POSITION_MASK) + 1


def stream_key(doc_id: Ints, position: Ints) -> Ints:
    """Return numbers in which the ranked neighbours of an event are one less and one more.

    An event that is not ranked has no place among them, and the number 0.
    """
    bits = np.uint64(POSITION_BITS)
    return np.where(position == 0, np.uint64(0), (doc_id >> bits << bits) | position)
