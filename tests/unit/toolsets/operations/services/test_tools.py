from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from cortex.errors import NotFound, Unavailable
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Gate, ToolCall, ToolSpec
from cortex.toolsets.operations.services.backend import ServiceDirectory
from cortex.toolsets.operations.services.models import Restarted, ServiceReport, State
from cortex.toolsets.operations.services.tools import RestartParams, register
from fakes import WRITER

pytestmark = pytest.mark.anyio


class Backend:
    """Services that are what they are said to be, and note how they are restarted."""

    def __init__(self, name: str, **states: State) -> None:
        self.name = name
        self.states = states
        self.restarts: list[tuple[str, bool, float]] = []

    async def reports(self) -> Sequence[ServiceReport]:
        return [ServiceReport(name=n, backend=self.name, state=s) for n, s in self.states.items()]

    async def start(self, service: str) -> None:
        self.states[service] = "running"

    async def stop(self, service: str, *, patience_s: float | None = None) -> None:
        del patience_s
        self.states[service] = "stopped"

    async def restart(self, service: str, *, is_forced: bool, timeout_s: float) -> Restarted:
        self.restarts.append((service, is_forced, timeout_s))
        return Restarted(self.states[service], "running", 0.0004)


def tool(*backends: Backend) -> ToolSpec:
    registry = ToolRegistry()
    register(registry, ServiceDirectory(backends))
    return registry.get("system.restart_service")


CALL = ToolCall("c1", "system.restart_service", WRITER)


async def test_a_restart_reaches_the_backend_that_has_the_service() -> None:
    ours, theirs = Backend("cortex", web="running"), Backend("systemd", db="failed")
    spec = tool(ours, theirs)
    params = RestartParams.model_validate({"service": "db", "mode": "force", "timeoutMs": 1500})
    answer = await spec.handler(params, CALL)
    assert answer.to_data() == {
        "service": "db",
        "previousStatus": "degraded",
        "newStatus": "running",
        "durationMs": 1,
        "mode": "force",
    }
    assert (ours.restarts, theirs.restarts) == ([], [("db", True, 1.5)])


async def test_graceful_and_ten_seconds_are_what_is_not_said() -> None:
    ours = Backend("cortex", web="stopped")
    await tool(ours).handler(RestartParams(service="web"), CALL)
    assert ours.restarts == [("web", False, 10.0)]


async def test_an_unknown_service_is_not_found_and_the_known_are_named() -> None:
    spec = tool(Backend("cortex", web="running"), Backend("systemd", db="running"))
    with pytest.raises(NotFound, match=r"Unknown service: nope \(there is db, web\)"):
        await spec.handler(RestartParams(service="nope"), CALL)


def test_a_restart_is_behind_the_mutation_gate() -> None:
    policy = tool(Backend("cortex")).policy
    assert policy.gates == {Gate.SYSTEM_MUTATE}
    assert policy.mutates


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"service": ""},
        {"service": "web", "mode": "kindly"},
        {"service": "web", "timeoutMs": 0},
        {"service": "web", "timeoutMs": 60_001},
        {"service": "web", "extra": 1},
    ],
)
def test_what_the_seed_does_not_accept_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RestartParams.model_validate(arguments)


async def test_of_two_services_with_one_name_the_first_backend_s_counts() -> None:
    directory = ServiceDirectory(
        [Backend("cortex", web="stopped"), Backend("systemd", web="running")]
    )
    assert [(r.name, r.backend) for r in await directory.reports()] == [("web", "cortex")]


async def test_a_backend_that_is_away_hides_its_own_services_alone() -> None:
    class Away(Backend):
        async def reports(self) -> Sequence[ServiceReport]:
            raise Unavailable("supervisord does not answer")

    ours = Backend("cortex", web="running")
    directory = ServiceDirectory([Away("supervisord"), ours])
    assert await directory.find("web") is ours
    with pytest.raises(Unavailable, match="supervisord does not answer"):
        await directory.find("db")
