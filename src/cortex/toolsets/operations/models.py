"""Values of operations: services and the machine they run on. Names and units as on the wire."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.gateway.spec import Result

ServiceState = Literal["running", "stopped", "degraded"]
Part = Literal["services", "resources", "uptime", "version"]

_WIRE = ConfigDict(
    frozen=True, populate_by_name=True, alias_generator=to_camel, revalidate_instances="always"
)


class ServiceStatus(BaseModel):
    model_config = _WIRE

    name: str
    status: ServiceState
    version: str | None = None


class ResourceSummary(BaseModel):
    """The machine at a glance."""

    model_config = _WIRE

    cpu: Annotated[float, Field(ge=0, le=100, description="Percent of all cores.")]
    memory_mb: Annotated[
        int, Field(ge=0, alias="memoryMB", description="Memory in use on the machine.")
    ]
    load: Annotated[float, Field(ge=0, description="Load average of the last minute.")]


class SystemStatus(Result):
    """Answer of system.status: the parts that were asked for."""

    model_config = _WIRE

    services: list[ServiceStatus] | None = None
    resources: ResourceSummary | None = None
    uptime_sec: Annotated[float | None, Field(ge=0, description="Of the daemon.")] = None
    version: str | None = None


class MemoryUse(BaseModel):
    model_config = _WIRE

    used_mb: Annotated[int, Field(ge=0, alias="usedMB")]
    total_mb: Annotated[int, Field(ge=0, alias="totalMB")]


class SystemResources(Result):
    """Answer of system.resources."""

    model_config = _WIRE

    cpu: Annotated[float, Field(ge=0, le=100, description="Percent of all cores, over the window.")]
    memory: MemoryUse
    load_avg: Annotated[tuple[float, float, float], Field(description="Over 1, 5 and 15 minutes.")]
