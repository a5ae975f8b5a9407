"""The tool that changes services: system.restart_service. The rules live in the backends."""

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Gate, Params, Policy, ToolCall
from cortex.toolsets.operations.services.backend import ServiceDirectory
from cortex.toolsets.operations.services.models import STATUS, Mode, ServiceRestart

TOOLSET = "operations"

_MAX_TIMEOUT_MS = 60_000
# The restart keeps its own time; the rest is for a kill and for asking a backend.
RESTART = Policy(
    gates=frozenset({Gate.SYSTEM_MUTATE}),
    mutates=True,
    destroys=True,
    timeout_s=_MAX_TIMEOUT_MS / 1000 + 10,
    safe_fields=frozenset({"service", "mode", "timeout_ms"}),
)


class RestartParams(Params):
    model_config = ConfigDict(alias_generator=to_camel)

    service: Annotated[
        str, Field(min_length=1, max_length=256, description="Its name, as system.status has it.")
    ]
    mode: Annotated[
        Mode,
        Field(description="graceful: SIGTERM first, SIGKILL when time is out. force: SIGKILL."),
    ] = "graceful"
    timeout_ms: Annotated[
        int,
        Field(
            ge=1,
            le=_MAX_TIMEOUT_MS,
            description="For the whole restart. A start that takes longer goes on by itself.",
        ),
    ] = 10_000


def register(registry: ToolRegistry, services: ServiceDirectory) -> None:
    """Declare the tool; called once, by app.py."""

    async def restart(params: RestartParams, _call: ToolCall) -> ServiceRestart:
        """Restart a managed service and wait until it runs, or until the time limit."""
        done = await services.restart(
            params.service,
            is_forced=params.mode == "force",
            timeout_s=params.timeout_ms / 1000,
        )
        return ServiceRestart(
            service=params.service,
            previous_status=STATUS[done.before],
            new_status=STATUS[done.after],
            duration_ms=max(1, round(done.duration_s * 1000)),
            mode=params.mode,
        )

    registry.add(
        "system.restart_service",
        restart,
        toolset=TOOLSET,
        params=RestartParams,
        result=ServiceRestart,
        policy=RESTART,
    )
