"""What a tool is: frozen data from which schemas, validation, limits and audit follow."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

Failure = Literal["result", "protocol"]
Transport = Literal["stdio", "http", "cli"]


class Gate(StrEnum):
    """What a tool may need; policies permit or forbid each by this name."""

    CODE_READ = "code.read"
    CONVERSATIONS_READ = "conversations.read"
    MEMORY_READ = "memory.read"
    MEMORY_WRITE = "memory.write"
    MEMORY_COMMIT = "memory.commit"
    SYSTEM_READ = "system.read"
    SYSTEM_MUTATE = "system.mutate"


@dataclass(frozen=True, slots=True)
class Cache:
    """How long an answer may be given again while nothing it was read from has changed."""

    ttl_s: float


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `calls` in any window of `per_s` seconds, for each principal."""

    calls: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The conditions a tool runs under. What is None comes from `[limits]`."""

    gates: frozenset[Gate]
    mutates: bool = False
    destroys: bool = False
    cache: Cache | None = None
    limit: RateLimit | None = None
    timeout_s: float | None = None
    max_input_bytes: int | None = None
    failure: Failure = "result"
    # Arguments that may stand in the audit record as they are; all others only as a digest.
    safe_fields: frozenset[str] = frozenset()


class Params(BaseModel):
    """Arguments of a tool: frozen, nothing unknown accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    # Retrieval tools pull a number that is out of range to its bound; operations refuse it.
    clamps: ClassVar[bool] = False


class Result(BaseModel):
    """What a tool answers: the structured form, and the text a model reads."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, revalidate_instances="always")

    # Whether `tools/list` shows its schema: a tool that answers in prose publishes none.
    is_published: ClassVar[bool] = True

    def to_structured(self) -> dict[str, Any] | None:
        """Return what goes out as `structuredContent`, if anything does."""
        return self.to_data()

    def to_data(self) -> dict[str, Any]:
        """Return the structured form, as `outputSchema` publishes it."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def to_text(self) -> str:
        """Return the text form: the same as JSON, unless a tool writes prose."""
        return json.dumps(self.to_data(), indent=2, ensure_ascii=False)


class Approver(Protocol):
    """Asks the person behind a client, who answers in the client."""

    async def approve(self, question: str) -> bool | None:
        """Return what the person says, or None if they cannot be asked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, from where, and what their session allows."""

    principal: str
    client: str = "unknown"
    transport: Transport = "stdio"
    session_id: str = ""
    cwd: str | None = None
    allow_mutations: bool = False
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    approver: Approver | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as its handler sees it."""

    call_id: str
    tool: str
    caller: Caller


Handler = Callable[[Any, ToolCall], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One registered tool."""

    name: str
    toolset: str
    description: str
    params: type[Params]
    result: type[Result]
    policy: Policy
    handler: Handler

    @property
    def underscored(self) -> str:
        """The name for clients that refuse dots."""
        return self.name.replace(".", "_")
