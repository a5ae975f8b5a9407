import pytest

from cortex.toolsets.operations import queries
from cortex.toolsets.operations.queries import CpuTimes


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (CpuTimes(10, 100), CpuTimes(15, 110), 50.0),
        (CpuTimes(10, 100), CpuTimes(10, 110), 0.0),
        (CpuTimes(10, 100), CpuTimes(20, 110), 100.0),
        (CpuTimes(10, 100), CpuTimes(10, 100), 0.0),
        (CpuTimes(10, 100), CpuTimes(9, 110), 0.0),  # counters may step back a little
        (CpuTimes(10, 100), CpuTimes(21, 110), 100.0),
        (CpuTimes(0, 0), CpuTimes(1, 3), 33.3),
    ],
)
def test_cpu_is_the_busy_share_between_two_readings(
    before: CpuTimes, after: CpuTimes, percent: float
) -> None:
    assert queries.cpu_percent(before, after) == percent


def test_the_machine_answers_with_figures_that_can_be() -> None:
    times = queries.cpu_times()
    assert 0 < times.busy_s < times.total_s
    used_mb, total_mb = queries.memory_mb()
    assert 0 < used_mb <= total_mb
    assert all(load >= 0 for load in queries.load_average())
