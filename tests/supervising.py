"""A supervisor on a home of its own; run as a program, one that can be killed at any line of it."""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import psutil

from cortex.clock import RandomIds, SystemClock
from cortex.settings.services import ServiceSettings
from cortex.state.database import Database
from cortex.toolsets.operations.services.changes import Changes
from cortex.toolsets.operations.services.models import ServiceReport
from cortex.toolsets.operations.services.output import Logs
from cortex.toolsets.operations.services.queries import Records
from cortex.toolsets.operations.services.supervisor import Supervisor
from cortex.toolsets.operations.services.unit import Ground

MARK = "CORTEX_TEST_MARK"

Declared = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Supervised:
    """A supervisor, and what it stands on."""

    supervisor: Supervisor
    ground: Ground

    def report(self, service: str) -> ServiceReport:
        """Tell how one service is doing."""
        return next(r for r in self.supervisor.reports_now() if r.name == service)

    async def until(self, service: str, is_so: Callable[[ServiceReport], bool]) -> ServiceReport:
        """Wait until it is so."""
        with anyio.fail_after(15):
            await self.ground.changes.until(lambda: is_so(self.report(service)))
        return self.report(service)

    async def reach(self, service: str, state: str) -> ServiceReport:
        """Wait until the service is in a state."""
        return await self.until(service, lambda report: report.state == state)


@contextlib.contextmanager
def opened(home: Path, declared: Declared, *, max_bytes: int = 1_000_000) -> Any:
    """Make the supervisor of a home; every process it starts carries the home as a mark."""
    database = Database.open(str(home / "services.db"), durability="OFF")
    ground = Ground(
        records=Records(database),
        logs=Logs(home / "logs", max_bytes=max_bytes, backups=2),
        changes=Changes(),
        clock=SystemClock(),
        ids=RandomIds(),
        home=str(home),
        environ={"PATH": os.environ["PATH"], MARK: str(home)},
    )
    services = {name: ServiceSettings.model_validate(table) for name, table in declared.items()}
    try:
        yield Supervised(Supervisor(services, ground), ground)
    finally:
        database.close()


@contextlib.asynccontextmanager
async def supervised(
    home: Path, declared: Declared, *, is_stopped: bool = True, max_bytes: int = 1_000_000
) -> AsyncGenerator[Supervised]:
    """Run the supervisor; at the end stop all services, or leave them as a crash would."""
    with opened(home, declared, max_bytes=max_bytes) as made:
        async with anyio.create_task_group() as group:
            group.start_soon(made.supervisor.run)
            try:
                yield made
            finally:
                with anyio.CancelScope(shield=True):
                    if is_stopped:
                        await made.supervisor.stop_all(within_s=5)
                group.cancel_scope.cancel()


def marked(home: Path, program: str = "") -> list[psutil.Process]:
    """Return all live processes that services of this home started."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid() or process.environ().get(MARK) != str(home):
                continue
            if process.status() != psutil.STATUS_ZOMBIE and program in process.cmdline()[0]:
                found.append(process)
    return found


def die_at_line(number: int, functions: frozenset[str]) -> None:
    """Have this process killed before the given line of these functions, on whatever thread."""
    left = number

    def on_line(_frame: FrameType, event: str, _value: object) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return on_line

    def on_call(frame: FrameType, _event: str, _value: object) -> Any:
        code = frame.f_code
        is_ours = "operations/services" in code.co_filename and code.co_name in functions
        return on_line if is_ours else None

    sys.settrace(on_call)
    threading.settrace(on_call)


def main(home: Path) -> None:
    """Supervise `services.json` until SIGTERM, which stops the services."""
    declared = json.loads((home / "services.json").read_text())

    async def serve() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async with supervised(home, declared):
                (home / "ready").touch()
                await anext(signals)

    anyio.run(serve)


# All that happens between the wish for a process and its being watched.
STARTING = frozenset({"_launch", "launch", "_save", "let_go"})


def chaos(home: Path) -> dict[str, Any]:
    """Kill a supervisor at each line of a start in turn, and see what the next one makes of it."""
    declared = json.loads((home / "services.json").read_text())
    problems: list[str] = []
    kills = 0
    while _forked(_start_once, home, declared, kills) == -signal.SIGKILL:
        status = _forked(_recover, home, declared)
        if status:
            problems.append(f"killed at line {kills}: the next daemon ended with {status}")
        if left := marked(home):
            problems.append(f"killed at line {kills}: left {[p.cmdline() for p in left]}")
        kills += 1
    _forked(_recover, home, declared)
    return {"kills": kills, "problems": problems}


def _forked(work: Callable[..., Awaitable[None]], *arguments: object) -> int:
    """Run in a process of its own, which is much cheaper than a new program; return its code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            anyio.run(work, *arguments)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def _start_once(home: Path, declared: Declared, line: int) -> None:
    die_at_line(line, STARTING)
    async with supervised(home, declared, is_stopped=False) as made:
        for service in declared:
            await made.until(service, lambda report: report.pid is not None)
        await anyio.sleep(0.1)
    sys.settrace(None)


async def _recover(home: Path, declared: Declared) -> None:
    """Be the next daemon: there is one process for each service, and in the end none."""
    async with supervised(home, declared) as made:
        with anyio.fail_after(10):
            while not _is_as_told(home, made):  # noqa: ASYNC110
                await anyio.sleep(0.02)


def _is_as_told(home: Path, made: Supervised) -> bool:
    """Whether each service is past its gate, and nothing else is there."""
    running = sorted(process.pid for process in marked(home))
    past_gate = sorted(process.pid for process in marked(home, "sleep"))
    known = sorted(report.pid or 0 for report in made.supervisor.reports_now())
    return running == past_gate == known


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if sys.argv[2:] == ["chaos"]:
        print(json.dumps(chaos(place)))  # noqa: T201
    else:
        main(place)
