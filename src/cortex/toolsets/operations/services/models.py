"""Values of services: their states, what is told of them, and what a restart answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.gateway.spec import Result
from cortex.toolsets.operations.models import ServiceState

State = Literal["starting", "running", "degraded", "backoff", "stopped", "failed"]
Goal = Literal["run", "stop", "restart"]
Mode = Literal["graceful", "force"]

# The three words of system.status: what is neither up and well nor at rest is degraded.
STATUS: Mapping[State, ServiceState] = {
    "starting": "degraded",
    "running": "running",
    "degraded": "degraded",
    "backoff": "degraded",
    "stopped": "stopped",
    "failed": "degraded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReport:
    """How one service is doing, whoever keeps it up."""

    name: str
    backend: str
    state: State
    pid: int | None = None
    since: datetime | None = None
    restarts: int | None = None
    memory_mb: int | None = None
    detail: str = ""

    @property
    def status(self) -> ServiceState:
        """Return the state in the words of system.status."""
        return STATUS[self.state]


@dataclass(frozen=True, slots=True)
class Restarted:
    """What a restart found and what it left."""

    before: State
    after: State
    duration_s: float


class ServiceRestart(Result):
    """Answer of system.restart_service."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, alias_generator=to_camel, revalidate_instances="always"
    )

    service: str
    previous_status: ServiceState
    new_status: Annotated[
        ServiceState,
        Field(description="At the end of the time limit, if it does not run before that."),
    ]
    duration_ms: Annotated[int, Field(ge=1)]
    mode: Mode
