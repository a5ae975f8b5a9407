"""The systemd backend against a `busctl` of ours: no systemd runs where the tests do."""

import json
from pathlib import Path

import pytest

from cortex.clock import SystemClock
from cortex.errors import NotFound, Unavailable
from cortex.toolsets.operations.services.systemd import Systemd

pytestmark = pytest.mark.anyio

# Keeps the state of one unit in a file, notes each method, and answers as busctl --json=short does.
BUSCTL = """#!/bin/sh
cd {folder}
while [ "$1" != call ]; do shift; done
shift 4
echo "$*" >>asked
case "$1" in
StartUnit) echo active >state ;;
StopUnit) [ -e stubborn ] && echo deactivating >state || echo inactive >state ;;
KillUnit) echo failed >state; exit 0 ;;
ListUnitsByNames)
  state=$(cat state) load=$(cat load)
  printf '{{"type":"a(ssssssouso)","data":[[["%s","","%s","%s","sub","","/o",0,"","/"]]]}}' \\
    web.service $load $state
  exit 0 ;;
*) echo "Call failed: no such method" >&2; exit 1 ;;
esac
echo '{{"type":"o","data":["/org/freedesktop/systemd1/job/1"]}}'
"""


@pytest.fixture
def one(tmp_path: Path) -> Systemd:
    program = tmp_path / "busctl"
    program.write_text(BUSCTL.format(folder=tmp_path))
    program.chmod(0o700)
    (tmp_path / "state").write_text("active")
    (tmp_path / "load").write_text("loaded")
    return Systemd(["web"], SystemClock(), busctl=str(program))


@pytest.mark.parametrize(
    ("active", "state"),
    [
        ("active", "running"),
        ("activating", "starting"),
        ("deactivating", "degraded"),
        ("inactive", "stopped"),
        ("failed", "failed"),
        ("something-new", "degraded"),
    ],
)
async def test_states_of_units_have_our_words(
    one: Systemd, tmp_path: Path, active: str, state: str
) -> None:
    (tmp_path / "state").write_text(active)
    assert [(r.name, r.backend, r.state) for r in await one.reports()] == [
        ("web", "systemd", state)
    ]


async def test_a_restart_stops_starts_and_tells(one: Systemd, tmp_path: Path) -> None:
    done = await one.restart("web", is_forced=False, timeout_s=5)
    assert (done.before, done.after) == ("running", "running")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line for line in asked if not line.startswith("List")] == [
        "StopUnit ss web.service replace",
        "StartUnit ss web.service replace",
    ]


async def test_one_that_does_not_stop_is_killed(one: Systemd, tmp_path: Path) -> None:
    (tmp_path / "stubborn").touch()
    done = await one.restart("web.service", is_forced=False, timeout_s=0.3)
    assert done.after == "running"
    assert "KillUnit ssi web.service all 9" in (tmp_path / "asked").read_text()


async def test_a_unit_that_was_not_named_or_is_not_there_is_not_found(
    one: Systemd, tmp_path: Path
) -> None:
    with pytest.raises(NotFound, match="Unknown service: ssh"):
        await one.restart("ssh", is_forced=False, timeout_s=1)
    (tmp_path / "load").write_text("not-found")
    with pytest.raises(NotFound, match="Unknown unit of systemd"):
        await one.start("web")
    assert (await one.reports())[0].detail == "systemd has no such unit"


async def test_where_there_is_no_busctl_systemd_is_unavailable(tmp_path: Path) -> None:
    away = Systemd(["web"], SystemClock(), busctl=str(tmp_path / "none"))
    with pytest.raises(Unavailable, match="cannot ask systemd"):
        await away.reports()


def test_the_answer_of_the_script_is_json(tmp_path: Path) -> None:
    """A guard for this file alone: the braces of the script survive `format`."""
    shown = BUSCTL.format(folder=tmp_path)
    begin, end = shown.index('{"type":"o"'), shown.index("}'\n", shown.index('{"type":"o"')) + 1
    assert json.loads(shown[begin:end])["type"] == "o"
