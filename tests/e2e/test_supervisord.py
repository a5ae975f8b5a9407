"""The supervisord backend against a real supervisord (issue 6, Services)."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from cortex.clock import SystemClock
from cortex.errors import NotFound, Unavailable
from cortex.toolsets.operations.services.models import ServiceReport
from cortex.toolsets.operations.services.supervisord import Supervisord

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.slow]

CONFIG = """
[supervisord]
nodaemon = true
logfile = {folder}/supervisord.log
pidfile = {folder}/supervisord.pid
childlogdir = {folder}
[unix_http_server]
file = {folder}/s.sock
username = ann
password = secret
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[program:web]
command = sleep 300
[program:idle]
command = sleep 300
autostart = false
[program:mule]
command = sh -c "trap '' TERM; while :; do sleep 0.05; done"
stopwaitsecs = 60
[program:broken]
command = sh -c "exit 3"
startretries = 0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a supervisord runs, with its socket."""
    program = os.environ.get("CORTEX_TEST_SUPERVISORD") or shutil.which("supervisord")
    if program is None:
        pytest.skip("there is no supervisord: pip install supervisor, or CORTEX_TEST_SUPERVISORD")
    config = tmp_path / "supervisord.conf"
    config.write_text(CONFIG.format(folder=tmp_path))
    with subprocess.Popen(
        [program, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + 15
            while not (tmp_path / "s.sock").exists():
                assert process.poll() is None, (tmp_path / "supervisord.log").read_text()
                assert time.monotonic() < deadline, "supervisord does not get ready"
                time.sleep(0.05)
            yield tmp_path
        finally:
            for pid in _children(process.pid):
                os.kill(pid, 9)  # the mule would keep it for a minute
            process.terminate()


def _children(pid: int) -> list[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def backend(folder: Path) -> Supervisord:
    # urlsplit keeps user and password of a unix URL too.
    return Supervisord(f"unix://ann:secret@{folder}/s.sock", SystemClock())


async def reach(one: Supervisord, service: str, state: str) -> ServiceReport:
    with anyio.fail_after(10):
        while True:
            report = next(r for r in await one.reports() if r.name == service)
            if report.state == state:
                return report
            await anyio.sleep(0.05)


async def test_what_a_real_supervisord_says_is_said_in_our_words(folder: Path) -> None:
    one = backend(folder)
    running = await reach(one, "web", "running")
    assert running.pid is not None
    assert running.backend == "supervisord"
    assert (await reach(one, "idle", "stopped")).pid is None
    await reach(one, "broken", "failed")


async def test_restarts_stop_and_start_and_tell_the_truth(folder: Path) -> None:
    one = backend(folder)
    first = await reach(one, "web", "running")
    done = await one.restart("web", is_forced=False, timeout_s=10)
    assert (done.before, done.after) == ("running", "running")
    assert (await reach(one, "web", "running")).pid != first.pid
    done = await one.restart("idle", is_forced=False, timeout_s=10)
    assert (done.before, done.after) == ("stopped", "running")
    done = await one.restart("broken", is_forced=False, timeout_s=5)
    assert done.after == "failed"


async def test_one_that_ignores_sigterm_is_killed_when_the_time_is_out(folder: Path) -> None:
    one = backend(folder)
    first = await reach(one, "mule", "running")
    done = await one.restart("mule", is_forced=False, timeout_s=0.5)
    assert done.before == "running"
    assert 0.5 <= done.duration_s < 8  # its stopwaitsecs are 60
    again = await reach(one, "mule", "running")
    assert again.pid != first.pid
    done = await one.restart("mule", is_forced=True, timeout_s=10)
    assert done.after == "running"
    assert (await reach(one, "mule", "running")).pid != again.pid
    await one.stop("mule", patience_s=0)
    await reach(one, "mule", "stopped")


async def test_an_unknown_service_and_a_wrong_password_are_told_apart(folder: Path) -> None:
    with pytest.raises(NotFound, match="Unknown service: nope"):
        await backend(folder).restart("nope", is_forced=False, timeout_s=1)
    stranger = Supervisord(f"unix://ann:wrong@{folder}/s.sock", SystemClock())
    with pytest.raises(Unavailable, match="supervisord refuses us: 401"):
        await stranger.reports()


async def test_a_supervisord_that_is_away_is_unavailable(tmp_path: Path) -> None:
    away = Supervisord(f"unix://{tmp_path}/none.sock", SystemClock())
    with pytest.raises(Unavailable, match="supervisord does not answer"):
        await away.reports()
