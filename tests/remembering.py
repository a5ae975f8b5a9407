"""What tests of memory share: who writes, who reads, and sessions that took place."""

from collections.abc import Mapping, Sequence
from typing import Any

from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.models import Actor, Memory
from cortex.toolsets.memory.notes import Draft
from cortex.toolsets.memory.recall import Reader
from cortex.toolsets.memory.review import Asked

PERSON = Actor(author="operator", via="terminal", client="cortex-cli")
READER = Reader(session="reading", project="")


def agent(session: str = "s1", project: str = "") -> Actor:
    """Return an agent in a session."""
    return Actor(
        author="agent", via="agent", principal="uid:1", client="test 1", session=session,
        project=project,
    )  # fmt: skip


def asked(tool: str = "cortex_memory_accept", **fields: Any) -> Asked:
    """Return an agent that wants something approved."""
    given: dict[str, Any] = {"tool": tool, "actor": agent(), **fields}
    return Asked(**given)


async def noted(memories: Memories, claim: str, actor: Actor | None = None, **draft: Any) -> Memory:
    """Keep a claim and return its memory."""
    done = await memories.notes.note(Draft(claim=claim, **draft), actor or agent())
    return done.memory


async def found(memories: Memories, query: str, reader: Reader = READER) -> list[str]:
    """Return the ids a search finds, best first."""
    return [hit.memory.id for hit in await memories.service.search(query, reader, 10)]


def find_secrets(text: str) -> list[str]:
    """Find what these tests call a secret."""
    return ["token"] if "sk-secret" in text else []


class PastSessions:
    """Conversations that were ingested."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[Mapping[str, Any]]] = {}

    def say(self, session: str, uid: str, role: str, text: str) -> None:
        """Add an event."""
        event = {"event_uid": uid, "actor_role": role, "text_content": text}
        self.sessions.setdefault(session, []).append(event)

    async def has_event(self, event_uid: str) -> bool:
        return any(e["event_uid"] == event_uid for s in self.sessions.values() for e in s)

    async def session_events(self, session_id: str, limit: int) -> Sequence[Mapping[str, Any]]:
        return self.sessions.get(session_id, [])[:limit]

    async def newest_session(self, project: str) -> str | None:
        del project
        return list(self.sessions)[-1] if self.sessions else None


class Person:
    """Somebody who answers in their client, always the same."""

    def __init__(self, answer: bool | None) -> None:
        self.answer = answer
        self.questions: list[str] = []

    async def approve(self, question: str) -> bool | None:
        self.questions.append(question)
        return self.answer
