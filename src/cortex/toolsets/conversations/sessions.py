"""The sessions there are, newest first: when, which agent, where, about what, how much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.session_queries import SessionFilters, SessionQueries

_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of one agent."""

    session_id: str
    harness: str
    project: str
    title: str
    started_at: datetime
    updated_at: datetime
    events: int
    turns: int
    tokens: Mapping[str, int]  # input, output, cache_read, cache_write, reasoning


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions, and how many there are of that kind."""

    sessions: Sequence[Session]
    total: int


class SessionsService:
    """Lists sessions."""

    def __init__(self, queries: SessionQueries, redactor: Redactor) -> None:
        self._queries = queries
        self._redactor = redactor

    async def list(self, filters: SessionFilters, limit: int) -> SessionPage:
        """Return the sessions that changed last."""
        found = await self._queries.sessions(filters, limit)
        shown = [str(row["session"]) for row in found]
        wanted = [int(stream) for row in found for stream in row["streams"]]
        pieces: dict[str, list[dict[str, Any]]] = {}
        for row in await self._queries.summaries(wanted):
            pieces.setdefault(str(row["session_id"]), []).append(row)
        untitled = [r["prompt"] for rows in pieces.values() for r in rows if not r["named"]]
        said = await self._queries.beginnings([doc_id for doc_id in untitled if doc_id])
        # One that went while we looked is left out.
        listed = [self._session(name, pieces[name], said) for name in shown if name in pieces]
        return SessionPage(listed, int(found[0]["total"]) if found else 0)

    def _session(
        self, session_id: str, pieces: Sequence[Mapping[str, Any]], said: Mapping[int, str]
    ) -> Session:
        pieces = sorted(pieces, key=lambda piece: piece["first"])
        named = [piece["named"] for piece in pieces if piece["named"]]
        prompts = [said[p["prompt"]] for p in pieces if said.get(p["prompt"])]
        title = named[-1] if named else next(iter(prompts), "")
        names = ("input", "output", "cache_read", "cache_write", "reasoning")
        return Session(
            session_id=session_id,
            harness=pieces[0]["agent"],
            project=next((p["folder"] for p in pieces if p["folder"]), ""),
            title=_short(self._redactor.redact(" ".join(title.split())).text),
            started_at=pieces[0]["first"],
            updated_at=max(piece["last"] for piece in pieces),
            events=sum(piece["events"] for piece in pieces),
            turns=sum(piece["turns"] for piece in pieces),
            tokens={name: sum(int(piece[name]) for piece in pieces) for name in names},
        )


def _short(text: str) -> str:
    return text if len(text) <= _TITLE_CHARS else text[: _TITLE_CHARS - 1] + "…"
