"""What may be declared of a service: `[services.NAME]`, a table for each process to be kept up."""

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from cortex.settings.types import AbsolutePath, HttpUrl, Unset

RestartPolicy = Literal["always", "on-failure", "never"]

# `cortex logs` has other things under these names.
_RESERVED = frozenset({"daemon", "stderr"})


class _Slice(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )


def _argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("a text without NUL")
    return text


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
        raise ValueError("the name of an environment variable")
    return name


def _service_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", name) or name in _RESERVED:
        reserved = " and ".join(sorted(_RESERVED))
        raise ValueError(
            "small letters, digits, dashes and underscores, 63 at most, a letter first,"
            f" and neither {reserved}"
        )
    return name


def _tcp_address(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ValueError("host:port, such as 127.0.0.1:5432")
    return address


Argument = Annotated[str, Field(max_length=8192), AfterValidator(_argument)]
Arguments = Annotated[tuple[Argument, ...], Field(strict=False, min_length=1, max_length=256)]
ServiceName = Annotated[str, AfterValidator(_service_name)]
TcpAddress = Annotated[str, Field(max_length=300), AfterValidator(_tcp_address)]
Variable = Annotated[str, AfterValidator(_variable)]


class HealthSettings(_Slice):
    command: Annotated[
        Arguments | None,
        Unset("no command"),
        Field(description="A command that ends with 0 while the service is well."),
    ] = None
    http: Annotated[
        HttpUrl | None,
        Unset("no request"),
        Field(description="A URL that answers with a status from 200 to 399."),
    ] = None
    tcp: Annotated[
        TcpAddress | None,
        Unset("no connection"),
        Field(description="An address, `host:port`, that takes connections."),
    ] = None
    interval_ms: Annotated[
        int,
        Field(
            ge=100,
            le=3_600_000,
            description="The time between two checks. A check may take as long, 10 s at most.",
        ),
    ] = 10_000

    @model_validator(mode="after")
    def _is_one_check(self) -> Self:
        if sum(check is not None for check in (self.command, self.http, self.tcp)) != 1:
            raise ValueError("exactly one of command, http and tcp")
        return self


class ServiceSettings(_Slice):
    command: Annotated[
        Arguments,
        Field(
            description="Program and arguments; no shell reads them. It must stay in the "
            "foreground: when it ends, whatever it started is ended too."
        ),
    ]
    cwd: Annotated[
        AbsolutePath | None,
        Unset("the home"),
        Field(description="The folder it runs in."),
    ] = None
    env: Annotated[
        dict[Variable, Argument],
        Field(max_length=256, description="Variables beside those of the daemon."),
    ] = {}
    autostart: Annotated[bool, Field(description="Whether it starts with the daemon.")] = True
    restart: Annotated[
        RestartPolicy,
        Field(description="Whether it is started again when it ends by itself."),
    ] = "on-failure"
    stop_timeout_ms: Annotated[
        int,
        Field(ge=0, le=60_000, description="How long it may take to end before it is killed."),
    ] = 5000
    health: Annotated[
        HealthSettings | None,
        Unset("well while it runs"),
        Field(description="How to tell that it does its work."),
    ] = None
    depends_on: Annotated[
        tuple[ServiceName, ...],
        Field(strict=False, max_length=64, description="Services that must run before it starts."),
    ] = ()

    @property
    def stop_timeout_s(self) -> float:
        """Return how long it may take to end."""
        return self.stop_timeout_ms / 1000

    def folder(self, home: str) -> Path:
        """Return the folder it runs in."""
        return Path(self.cwd or home)


def start_order(services: Mapping[str, ServiceSettings]) -> tuple[str, ...]:
    """Return the names so that each comes after what it depends on; ValueError if none can."""
    for name, service in services.items():
        for needed in service.depends_on:
            if needed not in services:
                raise ValueError(f"services that are declared; {name} depends on {needed!r}")
    try:
        graph = {name: services[name].depends_on for name in sorted(services)}
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ValueError(
            f"services that do not wait for each other in a circle: {circle}"
        ) from None


def _in_order(services: dict[str, ServiceSettings]) -> dict[str, ServiceSettings]:
    return {name: services[name] for name in start_order(services)}


DeclaredServices = Annotated[
    dict[ServiceName, ServiceSettings],
    Field(max_length=256, description="Processes that the daemon keeps up, each by its name."),
    AfterValidator(_in_order),
]
