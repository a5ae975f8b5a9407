"""Values of conversations: what an agent's session file says, in one shape for all agents."""

from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal[
    "session_meta",
    "turn_context",
    "message",
    "tool_call",
    "tool_result",
    "reasoning",
    "event_msg",
    "compacted_raw",
    "progress",
    "system",
    "summary",
    "queue_operation",
    "file_history_snapshot",
    "unknown",
]
Actor = Literal["user", "assistant", "tool", "system"]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one model response. Stands on one event of it only, so that a sum is right."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


# Events, links and readings are made by the million and then left alone; they are not frozen, as
# freezing sets each field by a call.
@dataclass(slots=True, kw_only=True)
class Event:
    """One thing that was said or done. `slot` names it inside its record, for good."""

    session_id: str
    slot: str
    block: int  # order inside the record
    kind: EventKind
    payload_type: str
    actor: Actor
    text: str = ""  # everything a person would search for
    item_id: str = ""  # the agent's own id of the record
    tool_name: str = ""
    tool_call_id: str = ""
    tool_phase: str = ""  # request, response
    tool_error: bool = False
    op_status: str = ""
    model: str = ""
    is_turn: bool = False  # a person's own prompt, not context that was put in for them
    is_substream: bool = False  # said inside a subagent
    is_mirror: bool = False  # says again what another record of the session says
    agent_label: str = ""
    title: str = ""  # a name for the session
    usage: TokenUsage | None = None
    payload_json: str = ""  # what a document or database holds of it; a line is kept as it is


@dataclass(slots=True)
class Link:
    """A reference from one event to another record of the agent, by the agent's own id."""

    slot: str
    link_type: Literal[
        "parent_event", "parent_uuid", "compacted_parent", "tool_use_id", "subagent_parent"
    ]
    target: str


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one record of a file says. `key` makes it the same record wherever it is read again."""

    session_id: str
    key: str
    timestamp_ms: int  # 0: the record has none that can be read
    record_type: str
    cwd: str = ""
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    bad_timestamp: str = ""  # what stood where a moment should be


@dataclass(slots=True)
class Carry:
    """What a reader remembers from record to record; stored with the checkpoint, so plain JSON."""

    session_id: str = ""
    cwd: str = ""
    model: str = ""
    timestamp_ms: int = 0
    tools: dict[str, str] = field(default_factory=dict[str, str])  # call id -> tool name
    seen: dict[str, int] = field(default_factory=dict[str, int])  # equal records of one moment
    usage_key: str = ""  # the response whose usage was counted last
    extra: dict[str, str] = field(default_factory=dict[str, str])
