"""Who calls a memory tool and under which conditions: policies, actors, readers."""

from collections.abc import Callable
from dataclasses import dataclass

from cortex.gateway.spec import Gate, Policy, ToolCall
from cortex.toolsets.memory.approval import Approver
from cortex.toolsets.memory.files import project_of
from cortex.toolsets.memory.models import Actor, Trust
from cortex.toolsets.memory.params import Scope
from cortex.toolsets.memory.recall import Reader
from cortex.toolsets.memory.review import AUTO_COMMIT, Asked

TOOLSET = "memory"
MAX_EVENTS_BYTES = 1024 * 1024
# A person needs time to read before they answer in their client.
_PATIENCE_S = 600.0

ApproverOf = Callable[[ToolCall], Approver | None]
"""Returns who can ask the person behind a call, if anybody can."""

READ = Policy(gates=frozenset({Gate.MEMORY_READ}), failure="protocol")
PROVE = Policy(gates=frozenset({Gate.MEMORY_READ}), failure="protocol", timeout_s=300.0)
WRITE = Policy(
    gates=frozenset({Gate.MEMORY_WRITE}),
    mutates=True,
    failure="protocol",
    safe_fields=frozenset({"id"}),
)
# Claims are private: of a note nothing stands in the audit record, the ledger of memory has it.
NOTE = Policy(gates=frozenset({Gate.MEMORY_WRITE}), mutates=True, failure="protocol")
# Room for the escapes of events that come as a JSON string; what is in it is measured by itself.
CLOSE = Policy(
    gates=frozenset({Gate.MEMORY_WRITE}),
    mutates=True,
    failure="protocol",
    max_input_bytes=3 * MAX_EVENTS_BYTES,
)
REVIEW = Policy(
    gates=frozenset({Gate.MEMORY_COMMIT}),
    mutates=True,
    failure="protocol",
    safe_fields=frozenset({"id"}),
    timeout_s=_PATIENCE_S,
)
COMMIT = Policy(
    gates=frozenset({Gate.MEMORY_WRITE, Gate.MEMORY_COMMIT}),
    mutates=True,
    failure="protocol",
    safe_fields=frozenset({"ids"}),
    timeout_s=_PATIENCE_S,
)


@dataclass(frozen=True, slots=True)
class Callers:
    """What a call says about who makes it."""

    approver_of: ApproverOf

    def actor(self, call: ToolCall) -> Actor:
        """Return who changes something: over MCP always an agent."""
        caller = call.caller
        return Actor(
            author="agent",
            via="agent",
            principal=caller.principal,
            client=caller.client[:128],
            session=session_of(call),
            project=project_of(caller.cwd),
        )

    def asked(self, call: ToolCall, code: str) -> Asked:
        """Return who wants something approved."""
        return Asked(
            tool=call.tool,
            actor=self.actor(call),
            code=code,
            approver=self.approver_of(call),
            is_automatic=call.caller.environ.get(AUTO_COMMIT) == "1",
        )


def session_of(call: ToolCall) -> str:
    """Return the session of a call; one without a name is told by who makes it."""
    caller = call.caller
    return caller.session_id or f"{caller.principal} {caller.client}"[:128]


def reader_of(
    call: ToolCall,
    scope: Scope = "project",
    *,
    trust: Trust | None = None,
    tags: tuple[str, ...] = (),
) -> Reader:
    """Return for whom memories are recalled: by default for its project and what holds anywhere."""
    project = project_of(call.caller.cwd)
    projects = {"project": tuple(dict.fromkeys((project, ""))), "global": ("",), "all": None}
    return Reader(
        session=session_of(call), project=project, projects=projects[scope], trust=trust, tags=tags
    )
