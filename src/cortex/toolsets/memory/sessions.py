"""Sessions: claims taken from what was said, as candidates with their evidence."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cortex.errors import NotFound, Unavailable
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.extraction import Extracted, Role, SaidEvent, extract
from cortex.toolsets.memory.models import LIVING, Actor, Evidence
from cortex.toolsets.memory.notes import Draft, Noted, Notes
from cortex.toolsets.memory.policy import Refused

MAX_EVENTS = 5000
MAX_CANDIDATES = 100
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "agent": "assistant",
    "model": "assistant",
    "tool": "tool",
    "tool_result": "tool",
}


@dataclass(frozen=True, slots=True)
class Closed:
    """What a session left behind."""

    events: int
    repeated: int
    candidates: tuple[Noted, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a session supports, without anything being written."""

    session: str
    events: int
    candidates: tuple[Extracted, ...]


class Sessions:
    """Takes claims out of sessions."""

    def __init__(self, core: Core, notes: Notes) -> None:
        self._core = core
        self._notes = notes

    async def close(self, events: Sequence[SaidEvent], project: str, actor: Actor) -> Closed:
        """Keep what the rules find in a session as candidates; an event counts once."""
        unique = {event.id: event for event in events}
        found = extract(unique.values())[:MAX_CANDIDATES]
        drafts = [
            Draft(
                claim=item.claim,
                tags=(item.rule.replace(" ", "-"),),
                confidence=item.confidence,
                project=project,
                evidence=await self._core.checks.checked(
                    [Evidence(kind="event", ref=uid) for uid in item.events], project
                ),
                status="candidate",
            )
            for item in found
        ]

        def change(connection: sqlite3.Connection) -> tuple[list[Noted], list[str]]:
            kept: list[Noted] = []
            refused: list[str] = []
            for draft in drafts:
                try:
                    kept.append(self._notes.write(connection, draft, actor, None))
                except Refused as error:  # a secret, or an order: said so, and not kept
                    refused.append(str(error.details["rule"]))
            return kept, refused

        kept, refused = await self._core.database.write(change)
        living = [noted for noted in kept if noted.memory.status in LIVING]
        return Closed(len(unique), len(events) - len(unique), tuple(living), tuple(refused))

    async def reflect(self, session: str, project: str) -> Reflection:
        """Return what an ingested session supports. Writes nothing."""
        conversations = self._core.checks.conversations
        if conversations is None:
            raise Unavailable("there are no conversations to reflect on in this daemon")
        chosen = session or await conversations.newest_session(project)
        if not chosen:
            raise NotFound("session", "the newest one")
        events = await conversations.session_events(chosen, MAX_EVENTS)
        if not events:
            raise NotFound("session", chosen[:64])
        said = [_said(event) for event in events]
        return Reflection(chosen, len(said), tuple(extract(said)[:MAX_CANDIDATES]))


def role_of(name: str) -> Role:
    """Return who speaks, by any of the names agents use; nobody in particular is a tool."""
    return _ROLES.get(name.lower(), "tool")


def _said(event: Mapping[str, Any]) -> SaidEvent:
    return SaidEvent(
        str(event["event_uid"]), role_of(str(event["actor_role"])), str(event["text_content"])
    )
