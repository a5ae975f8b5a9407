"""A record on its way to events: what stands on each of them, and their order."""

from dataclasses import dataclass, field
from typing import Any

from cortex.toolsets.conversations.models import Actor, Event, EventKind, TokenUsage
from cortex.toolsets.conversations.sources.reader import MAX_TEXT_CHARS


@dataclass(slots=True, kw_only=True)
class Telling:
    """The events of one record; readers add what their format knows of it."""

    session_id: str
    item_id: str = ""
    model: str = ""
    agent_label: str = ""
    is_substream: bool = False
    is_mirror: bool = False  # the whole record says again what another says
    usage: TokenUsage | None = None  # taken by the first event that says something new
    events: list[Event] = field(default_factory=list[Event])

    def add(
        self,
        slot: str,
        kind: EventKind,
        payload_type: str,
        actor: Actor,
        text: str,
        *,
        is_mirror: bool = False,
        **fields: Any,
    ) -> None:
        """Tell one more event."""
        is_mirror = is_mirror or self.is_mirror
        usage = None
        if not is_mirror:
            usage, self.usage = self.usage, None
        self.events.append(
            Event(
                session_id=self.session_id,
                slot=slot,
                block=len(self.events),
                kind=kind,
                payload_type=payload_type,
                actor=actor,
                text=text[:MAX_TEXT_CHARS],
                item_id=self.item_id,
                model=self.model,
                is_substream=self.is_substream,
                is_mirror=is_mirror,
                agent_label=self.agent_label,
                usage=usage,
                **fields,
            )
        )
