import pytest

from cortex.settings.services import RestartPolicy
from cortex.toolsets.operations.services.lifecycle import (
    LONGEST_WAIT_S,
    STABLE_S,
    START_GRACE_S,
    Life,
)
from cortex.toolsets.operations.services.models import STATUS
from fakes import FakeClock


def life(restart: RestartPolicy = "always", *, has_health: bool = False) -> Life:
    return Life(restart, FakeClock(), has_health=has_health)


def clock_of(one: Life) -> FakeClock:
    assert isinstance(one.clock, FakeClock)
    return one.clock


def test_every_state_has_one_of_the_three_words_of_the_seed() -> None:
    assert dict(STATUS) == {
        "starting": "degraded",
        "running": "running",
        "degraded": "degraded",
        "backoff": "degraded",
        "stopped": "stopped",
        "failed": "degraded",
    }


def test_without_a_check_a_process_that_lived_a_while_runs() -> None:
    one = life()
    one.launched()
    assert one.state == "starting"
    one.steady()
    assert one.state == "running"


def test_with_a_check_only_the_check_says_that_it_runs() -> None:
    one = life(has_health=True)
    one.launched()
    one.steady()
    assert one.state == "starting"
    one.checked(None)
    assert (one.state, one.detail) == ("running", "")
    one.checked("no answer")
    assert (one.state, one.detail) == ("degraded", "no answer")
    one.checked(None)
    assert one.state == "running"


def test_a_start_whose_check_never_passes_is_degraded_in_the_end() -> None:
    one = life(has_health=True)
    one.launched()
    clock_of(one).advance(START_GRACE_S - 1)
    one.checked("no answer")
    assert (one.state, one.detail) == ("starting", "no answer")
    clock_of(one).advance(1)
    one.checked("no answer")
    assert one.state == "degraded"


def test_a_late_check_does_not_wake_the_dead() -> None:
    one = life(has_health=True)
    one.launched()
    one.ended()
    one.checked(None)
    assert one.state == "stopped"


def test_waits_double_up_to_a_cap() -> None:
    one = life()
    waits: list[float | None] = []
    for _ in range(9):
        one.launched()
        waits.append(one.exited(1))
        assert one.state == "backoff"
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, LONGEST_WAIT_S, LONGEST_WAIT_S]
    assert one.restarts == 8


def test_stable_uptime_brings_the_shortest_wait_back_and_less_does_not() -> None:
    one = life()
    for _ in range(4):
        one.launched()
        one.exited(1)
    one.launched()
    clock_of(one).advance(STABLE_S - 0.1)
    assert one.exited(1) == 8
    one.launched()
    clock_of(one).advance(STABLE_S)
    assert one.exited(1) == 0.5


def test_an_end_that_was_asked_for_brings_the_shortest_wait_back() -> None:
    one = life()
    for _ in range(4):
        one.launched()
        one.exited(1)
    one.launched()
    one.ended()
    one.launched()
    assert one.exited(1) == 0.5


@pytest.mark.parametrize(
    ("restart", "code", "state"),
    [
        ("always", 0, "backoff"),
        ("on-failure", 0, "stopped"),
        ("on-failure", None, "backoff"),  # nobody saw how an adopted one ended
        ("never", -9, "failed"),
        ("never", None, "stopped"),
    ],
)
def test_an_end_leads_where_the_policy_says(
    restart: RestartPolicy, code: int | None, state: str
) -> None:
    one = life(restart)
    one.launched()
    assert (one.exited(code) is None) == (state != "backoff")
    assert one.state == state


def test_an_adopted_one_has_run_for_as_long_as_its_process() -> None:
    one = life()
    one.launched()
    one.exited(1)
    one.adopted(STABLE_S)
    assert one.state == "running"
    assert one.exited(None) == 0.5


def test_since_is_when_the_state_was_entered() -> None:
    one = life(has_health=True)
    one.launched()
    one.checked(None)
    entered = one.since
    clock_of(one).advance(5)
    one.checked(None)
    assert one.since == entered
