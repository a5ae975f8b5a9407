import anyio
import pytest

from cortex.toolsets.operations import queries
from cortex.toolsets.operations.models import ServiceStatus
from cortex.toolsets.operations.queries import CpuTimes
from cortex.toolsets.operations.service import CpuHistory, OperationsService
from cortex.version import __version__
from fakes import FakeClock

SERVICES = [ServiceStatus(name="audit", status="running", version="1")]


class Machine:
    """A CPU clock that is busy for as long as it is told to be, and sleep that takes no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.busy_s = 0.0
        self.slept: list[float] = []
        monkeypatch.setattr(queries, "cpu_times", self.read)
        monkeypatch.setattr(anyio, "sleep", self.sleep)

    def read(self) -> CpuTimes:
        return CpuTimes(self.busy_s, self.clock.monotonic())

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    def work(self, seconds: float, share: float) -> None:
        self.clock.advance(seconds)
        self.busy_s += seconds * share


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def service(machine: Machine) -> OperationsService:
    return OperationsService(machine.clock, CpuHistory(machine.clock), lambda: SERVICES)


def test_status_holds_what_was_asked_for_and_nothing_else(machine: Machine) -> None:
    operations = service(machine)
    machine.work(90, 0.5)
    assert operations.status([]).to_data() == {}
    assert operations.status(["services"]).services == SERVICES
    assert operations.status(["uptime", "version"]).to_data() == {
        "uptimeSec": 90.0,
        "version": __version__,
    }
    assert set(operations.status(["resources"]).to_data()["resources"]) == {
        "cpu",
        "memoryMB",
        "load",
    }


@pytest.mark.anyio
async def test_a_window_the_readings_cover_is_not_waited_for(machine: Machine) -> None:
    operations = service(machine)
    machine.work(10, 0.25)
    assert (await operations.resources(10)).cpu == 25.0
    assert machine.slept == [0.0]


@pytest.mark.anyio
async def test_a_window_the_readings_do_not_cover_is_waited_for(machine: Machine) -> None:
    operations = service(machine)
    machine.work(3, 1.0)
    answer = await operations.resources(12)
    assert machine.slept == [9.0]
    assert answer.cpu == 25.0
    assert set(answer.to_data()) == {"cpu", "memory", "loadAvg"}


def test_a_window_is_measured_from_the_reading_before_it(machine: Machine) -> None:
    history = CpuHistory(machine.clock)
    for share in (1.0, 1.0, 0.0, 0.5):
        machine.work(1, share)
        history._read()
    assert history.percent(1) == 50.0
    assert history.percent(2) == 25.0
    assert history.percent(1.5) == 25.0
    assert history.percent(4) == 62.5
    assert history.percent(100) == 62.5  # what is known of it
    assert history.known_s() == 4


@pytest.mark.anyio
async def test_readings_are_taken_each_second_and_the_oldest_forgotten(machine: Machine) -> None:
    history = CpuHistory(machine.clock)

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        await Machine.sleep(machine, seconds)
        if len(machine.slept) > 1000:
            raise Enough

    anyio.sleep = sleep  # put back by the fixture
    with pytest.raises(Enough):
        await history.run()
    assert set(machine.slept) == {1}
    assert 300 < history.known_s() <= 303
