"""Real processes, kept up, stopped, lost and found (issue 6, Services)."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import psutil
import pytest

import supervising
from cortex.errors import Conflict, NotFound
from cortex.toolsets.operations.services.processes import identify
from supervising import marked, opened, supervised

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.slow]

SLEEPER = {"command": ["sleep", "300"]}
# Ignores SIGTERM, and so does what it starts.
STUBBORN = {"command": ["sh", "-c", "trap '' TERM; sleep 300 & while :; do sleep 0.05; done"]}


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that nobody tells us of."""
    with anyio.fail_after(20):
        while not is_so():  # noqa: ASYNC110
            await anyio.sleep(0.05)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    left = marked(tmp_path)
    for process in left:
        process.kill()
    assert left == [], "a service outlived its test"


async def test_a_service_runs_and_is_gone_when_the_daemon_is_told_to_stop(home: Path) -> None:
    async with supervised(home, {"web": SLEEPER}) as made:
        report = await made.reach("web", "running")
        assert report.pid is not None
        assert psutil.Process(report.pid).cmdline()[1:] == ["300"]
        assert report.restarts == 0
        assert report.status == "running"
    assert marked(home) == []
    with opened(home, {}) as made:
        assert await made.ground.records.all() == {}


async def test_one_that_is_killed_is_started_again(home: Path) -> None:
    async with supervised(home, {"web": SLEEPER}) as made:
        first = await made.reach("web", "running")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        waiting = await made.reach("web", "backoff")
        assert waiting.detail == "ended by signal 9; next start in 0.5 s"
        again = await made.reach("web", "running")
        assert again.pid != first.pid
        assert again.restarts == 1
        assert len(marked(home)) == 1


@pytest.mark.parametrize(
    ("restart", "code", "state"),
    [
        ("always", 0, "backoff"),
        ("always", 3, "backoff"),
        ("on-failure", 0, "stopped"),
        ("on-failure", 3, "backoff"),
        ("never", 0, "stopped"),
        ("never", 3, "failed"),
    ],
)
async def test_what_follows_an_end_is_the_policy_s_word(
    home: Path, restart: str, code: int, state: str
) -> None:
    once = {"command": ["sh", "-c", f"exit {code}"], "restart": restart}
    async with supervised(home, {"once": once}) as made:
        report = await made.until("once", lambda r: r.detail.startswith(f"ended with {code}"))
        assert report.state == state


async def test_a_program_that_is_missing_is_said_in_one_line(home: Path) -> None:
    lost = {"command": ["no-such-program"], "restart": "never"}
    async with supervised(home, {"lost": lost}) as made:
        report = await made.reach("lost", "failed")
        assert report.detail == "cannot start no-such-program: there is no such program"


async def test_output_is_in_the_log_and_the_log_is_bounded(home: Path) -> None:
    chatty = {"command": ["sh", "-c", "while :; do echo $NOISE; done"], "env": {"NOISE": "la" * 40}}
    async with supervised(home, {"chatty": chatty}, max_bytes=20_000) as made:
        oldest = made.ground.logs.folder / "chatty.log.2"
        await until(oldest.exists)
    kept = sorted(made.ground.logs.folder.iterdir())
    assert [path.name for path in kept] == ["chatty.log", "chatty.log.1", "chatty.log.2"]
    for path in kept:
        assert path.stat().st_mode & 0o777 == 0o600
        assert set(path.read_text().split("\n")[1:-1]) <= {"la" * 40}
    assert max(path.stat().st_size for path in kept[1:]) < 20_000 + (1 << 20)


async def test_one_that_ignores_sigterm_is_killed_at_its_timeout_with_all_it_started(
    home: Path,
) -> None:
    async with supervised(home, {"mule": {**STUBBORN, "stop_timeout_ms": 400}}) as made:
        await made.reach("mule", "running")
        assert len(marked(home)) >= 2
        began = anyio.current_time()
        await made.supervisor.stop("mule")
        assert 0.4 <= anyio.current_time() - began < 5
        assert made.report("mule").state == "stopped"
        assert marked(home) == []


async def test_what_left_the_group_is_found_and_ended(home: Path) -> None:
    runaway = {"command": ["sh", "-c", "setsid sleep 301 & exec sleep 300"]}
    async with supervised(home, {"web": runaway}) as made:
        report = await made.reach("web", "running")
        strays = [p for p in marked(home) if os.getpgid(p.pid) != report.pid]
        assert [p.cmdline() for p in strays] == [["sleep", "301"]]
    assert marked(home) == []


async def test_what_a_crashed_service_leaves_behind_is_ended_before_the_next_start(
    home: Path,
) -> None:
    parent = {"command": ["sh", "-c", "sleep 302 & exec sleep 300"]}
    async with supervised(home, {"web": parent}) as made:
        first = await made.reach("web", "running")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        await made.until("web", lambda r: r.state == "running" and r.pid != first.pid)
        assert sorted(p.cmdline()[1] for p in marked(home)) == ["300", "302"]


async def test_services_start_after_what_they_depend_on_and_stop_before_it(home: Path) -> None:
    order = home / "order"
    told = 'trap "echo -$0 >>$ORDER; exit 0" TERM; echo +$0 >>$ORDER; while :; do sleep 0.05; done'
    env = {"ORDER": str(order)}
    declared = {
        name: {"command": ["sh", "-c", told, name], "env": env, "depends_on": needed}
        for name, needed in {"web": ["api"], "api": ["db"], "db": []}.items()
    }
    async with supervised(home, declared) as made:
        waiting = await made.until("web", lambda report: bool(report.detail))
        assert (waiting.state, waiting.detail) == ("starting", "waits for api")
        await made.reach("web", "running")
    assert order.read_text().split() == ["+db", "+api", "+web", "-web", "-api", "-db"]


async def test_health_by_tcp_decides_between_starting_running_and_degraded(home: Path) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{door.getsockname()[1]}"
        web = {**SLEEPER, "health": {"tcp": address, "interval_ms": 100}}
        async with supervised(home, {"web": web}) as made:
            await made.until("web", lambda report: report.pid is not None)
            await anyio.sleep(0.4)
            report = made.report("web")
            assert report.state == "starting"
            assert report.detail.startswith(f"{address} takes no connection")
            door.listen()
            await made.reach("web", "running")
            door.close()
            assert (await made.reach("web", "degraded")).status == "degraded"


async def test_a_health_command_that_hangs_is_ended_and_counts_as_a_failure(home: Path) -> None:
    slow = home / "slow"
    check = ["sh", "-c", f"test ! -e {slow} || exec sleep 303"]
    web = {**SLEEPER, "health": {"command": check, "interval_ms": 200}}
    async with supervised(home, {"web": web}) as made:
        await made.reach("web", "running")
        slow.touch()
        report = await made.reach("web", "degraded")
        assert report.detail == "no answer to the health check within 0.2 s"
        slow.unlink()
        await made.reach("web", "running")
        assert [p for p in marked(home) if p.cmdline() == ["sleep", "303"]] == []


async def test_health_by_http_takes_2xx_and_3xx_alone(home: Path) -> None:
    answer = "HTTP/1.1 200 OK"

    async def serve(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await stream.receive()
                await stream.send(f"{answer}\r\nContent-Length: 0\r\n\r\n".encode())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    web = {**SLEEPER, "health": {"http": f"http://127.0.0.1:{port}/up", "interval_ms": 1000}}
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        async with supervised(home, {"web": web}) as made:
            await made.reach("web", "running")
            answer = "HTTP/1.1 503 Busy"
            report = await made.reach("web", "degraded")
            assert report.detail == "the health check was answered with 503"
        group.cancel_scope.cancel()


async def test_a_graceful_restart_tells_what_was_and_what_is(home: Path) -> None:
    async with supervised(home, {"web": SLEEPER, "idle": {**SLEEPER, "autostart": False}}) as made:
        first = await made.reach("web", "running")
        done = await made.supervisor.restart("web", is_forced=False, timeout_s=10)
        assert (done.before, done.after) == ("running", "running")
        assert 1 <= done.duration_s < 8
        assert made.report("web").pid != first.pid
        done = await made.supervisor.restart("idle", is_forced=False, timeout_s=10)
        assert (done.before, done.after) == ("stopped", "running")
        assert len(marked(home)) == 2
        with pytest.raises(NotFound, match="Unknown service: nope"):
            await made.supervisor.restart("nope", is_forced=True, timeout_s=1)


async def test_a_restart_by_force_asks_nobody_and_one_out_of_time_says_how_far_it_came(
    home: Path,
) -> None:
    async with supervised(home, {"mule": STUBBORN}) as made:
        first = await made.reach("mule", "running")
        done = await made.supervisor.restart("mule", is_forced=True, timeout_s=10)
        assert done.after == "running"
        assert done.duration_s < 4  # its stop timeout is 5 s
        assert first.pid is not None
        assert identify(first.pid) is None
        done = await made.supervisor.restart("mule", is_forced=False, timeout_s=0.3)
        assert done.duration_s < 2
        assert done.after != "running" or made.report("mule").pid != first.pid
        await made.reach("mule", "running")


async def test_two_restarts_at_once_are_one_and_a_conflict(home: Path) -> None:
    async with supervised(home, {"web": SLEEPER}) as made:
        await made.reach("web", "running")
        async with anyio.create_task_group() as group:

            async def restart() -> None:
                await made.supervisor.restart("web", is_forced=False, timeout_s=10)

            group.start_soon(restart)
            await anyio.lowlevel.checkpoint()
            with pytest.raises(Conflict, match="is being restarted already"):
                await restart()


def start_program(home: Path) -> subprocess.Popen[bytes]:
    """Run a supervisor as a program of its own; it says when it is ready."""
    (home / "ready").unlink(missing_ok=True)
    return subprocess.Popen([sys.executable, supervising.__file__, str(home)])


async def test_services_survive_a_killed_daemon_and_are_adopted_by_the_next(home: Path) -> None:
    (home / "services.json").write_text(json.dumps({"web": SLEEPER}))
    program = start_program(home)
    try:
        await until(lambda: len(marked(home, "sleep")) == 1)
        service = marked(home)[0]
        program.kill()
        program.wait()
        assert service.is_running()
        program = start_program(home)
        await until((home / "ready").exists)
        await anyio.sleep(0.5)
        assert [p.pid for p in marked(home)] == [service.pid]
        program.terminate()
        assert await anyio.to_thread.run_sync(program.wait) == 0
    finally:
        program.kill()
        program.wait()
    assert marked(home) == []


async def test_an_adopted_service_is_watched_stopped_and_started_like_any_other(home: Path) -> None:
    async with supervised(home, {"web": SLEEPER}, is_stopped=False) as made:
        first = await made.reach("web", "running")
    async with supervised(home, {"web": {**SLEEPER, "stop_timeout_ms": 900}}) as made:
        found = await made.reach("web", "running")
        assert found.pid == first.pid
        assert found.detail == "runs as it was declared before; a restart takes the change"
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        waiting = await made.reach("web", "backoff")
        assert waiting.detail.startswith("ended, nobody saw how")
        await made.reach("web", "running")
        assert len(marked(home)) == 1


async def test_a_service_declared_no_longer_is_ended_by_the_next_daemon(home: Path) -> None:
    async with supervised(home, {"old": SLEEPER}, is_stopped=False) as made:
        await made.reach("old", "running")
    async with supervised(home, {"web": SLEEPER}) as made:
        await made.reach("web", "running")
        assert len(marked(home)) == 1
        assert set(await made.ground.records.all()) == {"web"}


async def test_one_that_was_stopped_stays_so_when_the_daemon_is_killed(home: Path) -> None:
    async with supervised(home, {"web": SLEEPER}, is_stopped=False) as made:
        await made.reach("web", "running")
        await made.supervisor.stop("web")
    async with supervised(home, {"web": SLEEPER}) as made:
        await anyio.sleep(0.3)
        assert made.report("web").state == "stopped"
        assert marked(home) == []


async def test_stop_all_ends_services_even_when_nothing_watches_them(home: Path) -> None:
    async with supervised(home, {"web": STUBBORN}, is_stopped=False) as made:
        await made.reach("web", "running")
    with opened(home, {"web": STUBBORN}) as made:
        await made.supervisor.stop_all(within_s=0.1)
    assert marked(home) == []


def test_a_daemon_killed_at_any_line_of_a_start_leaves_no_service_unrecorded_or_double(
    home: Path,
) -> None:
    """Killed before each line in turn; the next daemon must end up with one process, then none."""
    (home / "services.json").write_text(json.dumps({"web": SLEEPER}))
    answer = subprocess.run(
        [sys.executable, supervising.__file__, str(home), "chaos"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert told["problems"] == []
    assert told["kills"] >= 25
