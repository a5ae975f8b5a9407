"""Operations tools: what an agent may ask about this machine. The rules live in service.py."""

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Gate, Params, Policy, ToolCall
from cortex.toolsets.operations.models import Part, SystemResources, SystemStatus
from cortex.toolsets.operations.service import MAX_WINDOW_S, OperationsService

TOOLSET = "operations"

STATUS = Policy(gates=frozenset({Gate.SYSTEM_READ}), safe_fields=frozenset({"include"}))
# A daemon just started has to wait the whole window once.
RESOURCES = Policy(
    gates=frozenset({Gate.SYSTEM_READ}),
    timeout_s=MAX_WINDOW_S + 10,
    safe_fields=frozenset({"sample_window_sec"}),
)


class StatusParams(Params):
    include: Annotated[tuple[Part, ...], Field(description="Parts to return.")] = (
        "services",
        "resources",
    )


class ResourcesParams(Params):
    model_config = ConfigDict(alias_generator=to_camel)

    sample_window_sec: Annotated[
        int, Field(ge=1, le=MAX_WINDOW_S, description="Seconds to measure CPU over.")
    ] = 5


def register(registry: ToolRegistry, operations: OperationsService) -> None:
    """Declare the operations tools; called once, by app.py."""

    async def status(params: StatusParams, _call: ToolCall) -> SystemStatus:
        """Status of Cortex on this machine: its services (background jobs), CPU, memory, load."""
        return operations.status(params.include)

    async def resources(params: ResourcesParams, _call: ToolCall) -> SystemResources:
        """CPU, memory and load of this machine, measured over a window that ends now."""
        return await operations.resources(params.sample_window_sec)

    registry.add(
        "system.status",
        status,
        toolset=TOOLSET,
        params=StatusParams,
        result=SystemStatus,
        policy=STATUS,
    )
    registry.add(
        "system.resources",
        resources,
        toolset=TOOLSET,
        params=ResourcesParams,
        result=SystemResources,
        policy=RESOURCES,
    )
