"""What the index knows of an event for ranking. The reasons are in docs/explain/ranking.md."""

from enum import IntEnum

from cortex.toolsets.conversations.models import Event

# Tools of Cortex as agents' transcripts spell them; what they return is not news.
_OWN_TOOLS = ("mcp__cortex__", "mcp_cortex_", "cortex__", "cortex.", "cortex_")
_SILENT = frozenset({"token_count", "task_started", "task_complete", "turn_aborted"})


class EventClass(IntEnum):
    """Which events are ranked (up to TITLE and SPOKEN), and which only found on request."""

    PROMPT = 1
    ANSWER = 2
    REASONING = 3
    TITLE = 4
    SPOKEN = 5
    TOOL_CALL = 6
    TOOL_RESULT = 7
    OTHER = 8
    MIRROR = 9
    OWN = 10


RANKED = EventClass.SPOKEN


_BY_KIND = {
    "reasoning": EventClass.REASONING,
    "summary": EventClass.TITLE,
    "tool_call": EventClass.TOOL_CALL,
    "tool_result": EventClass.TOOL_RESULT,
}
_TOOLS = frozenset({"tool_call", "tool_result"})


def class_of(event: Event) -> EventClass:
    """Return the class of an event."""
    if event.kind in _TOOLS and event.tool_name.startswith(_OWN_TOOLS):
        return EventClass.OWN
    if event.is_mirror:
        return EventClass.MIRROR
    if event.kind == "message":
        return EventClass.PROMPT if event.actor == "user" else EventClass.ANSWER
    if event.title:
        return EventClass.TITLE
    spoken = event.kind == "event_msg" and event.payload_type not in _SILENT
    return _BY_KIND.get(event.kind, EventClass.SPOKEN if spoken else EventClass.OTHER)
