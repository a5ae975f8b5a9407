"""One declared service: started, watched, started again, stopped, and found after a crash."""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from cortex.clock import Clock, IdSource
from cortex.errors import Unavailable
from cortex.home import SESSION_VARIABLES
from cortex.settings.services import ServiceSettings
from cortex.toolsets.operations.services import processes
from cortex.toolsets.operations.services.changes import Changes
from cortex.toolsets.operations.services.health import check
from cortex.toolsets.operations.services.launch import Launched, launch
from cortex.toolsets.operations.services.lifecycle import STEADY_S, Life
from cortex.toolsets.operations.services.models import Goal, ServiceReport
from cortex.toolsets.operations.services.output import Logs
from cortex.toolsets.operations.services.queries import Record, Records

log = logging.getLogger(__name__)

# While it starts, a service is asked more often than its interval says.
_START_CHECK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all services stand on."""

    records: Records
    logs: Logs
    changes: Changes
    clock: Clock
    ids: IdSource
    home: str
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """One process of a service: of ours, or of an earlier daemon."""

    token: str
    identity: processes.Identity
    launched: Launched | None


class Unit:
    """Keeps one service as it shall be; one task runs it, others only say what they want."""

    def __init__(
        self,
        name: str,
        settings: ServiceSettings,
        ground: Ground,
        blockers: Callable[[], list[str]],
    ) -> None:
        self.name = name
        self.settings = settings
        self.life = Life(settings.restart, ground.clock, has_health=settings.health is not None)
        self._ground = ground
        self._blockers = blockers
        self._digest = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()
        self._goal: Goal = "run" if settings.autostart else "stop"
        self._stop_by: float | None = None
        self._run: Run | None = None
        self._is_forgotten = False
        # Until what an earlier daemon left is known, nothing may be written over it.
        self._is_known = False
        self._is_asked = False

    async def ask(self, goal: Goal, *, patience_s: float | None = None) -> None:
        """Say what the service shall do; a crash does not forget it."""
        self._goal = goal
        self._is_asked = True
        self._is_forgotten = False
        self._stop_by = None if patience_s is None else anyio.current_time() + patience_s
        await self._note()
        self._ground.changes.tell()

    async def forget(self) -> None:
        """Leave nothing behind of a service at rest, as if it had never been touched."""
        self._is_forgotten = True
        await self._ground.records.remove(self.name)

    @property
    def is_at_rest(self) -> bool:
        """Whether there is no process and none is wanted."""
        is_quiet = self.life.state in ("stopped", "failed")
        return self._is_known and self._goal == "stop" and self._run is None and is_quiet

    def report(self) -> ServiceReport:
        """Tell how the service is doing."""
        identity = self._run.identity if self._run else None
        return ServiceReport(
            name=self.name,
            backend="cortex",
            state=self.life.state,
            pid=identity.pid if identity else None,
            since=self.life.since,
            restarts=self.life.restarts,
            memory_mb=processes.memory_mb(identity) if identity else None,
            detail=self.life.detail,
        )

    async def run(self, record: Record | None) -> None:
        """Keep the service up until cancelled, which leaves its process running."""
        try:
            if record is not None:
                await self._take_over(record)
            self._is_known = True
            while True:
                if self._run is None and not await self._start():
                    continue
                if self._run is not None:
                    await self._after(await self._watch(self._run))
        finally:
            if self._run is not None and self._run.launched is not None:
                self._run.launched.disown()
            self._run = None
            self._is_known = self._is_asked = False

    async def _take_over(self, record: Record) -> None:
        """Go on where an earlier daemon was killed: adopt its process, or clear what is left."""
        if not self._is_asked:
            self._goal = record.goal
        process = record.process
        if record.token is None or process is None:
            if self._goal == "stop":
                self.life.found(record.state, record.detail)
            return
        run = Run(record.token, process, None)
        if process.is_alive:
            self._run = run
            self.life.adopted(processes.uptime_s(process))
            if record.digest != self._digest:
                self.life.detail = "runs as it was declared before; a restart takes the change"
            log.info("service %s found running as pid %d", self.name, process.pid)
        else:
            code = await self._clear(run)
            self._is_known = True
            await self._after(code)

    async def _start(self) -> bool:
        """Wait until it shall run and may, then launch it; whether there is a process now."""
        changes = self._ground.changes
        await changes.until(lambda: self._goal != "stop")
        if blockers := self._blockers():
            self.life.waits(f"waits for {', '.join(blockers)}")
            changes.tell()
            await changes.until(lambda: self._goal == "stop" or self._blockers() != blockers)
            if self._goal == "stop":
                await self._told_end()
            return False
        self._goal = "run"
        self._stop_by = None
        try:
            await self._launch()
        except Unavailable as error:
            log.warning("service %s: %s", self.name, error.message)
            await self._exited(127, error.message)
            return False
        return True

    async def _launch(self) -> None:
        token = self._ground.ids.new()
        environ = self._environ(token)
        launched = await anyio.to_thread.run_sync(
            lambda: launch(
                self.settings.command,
                cwd=self._folder,
                env=environ,
                token=token,
                log=self._ground.logs.path(self.name),
            )
        )
        self._run = Run(token, launched.identity, launched)
        try:
            self.life.launched()
            await self._save()
            launched.let_go()
        except BaseException:
            launched.close()
            launched.child.wait()  # at once: nobody holds the gate any more
            self._run = None
            raise
        self._ground.changes.tell()
        log.info("service %s started as pid %d", self.name, launched.identity.pid)

    async def _watch(self, run: Run) -> int | None:
        """Wait until the process ends, by itself or because it was told to; return its code."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_when_told, run)
            group.start_soon(self._observe, run)
            await processes.gone(run.identity)
            group.cancel_scope.cancel()
        return await self._clear(run)

    async def _clear(self, run: Run) -> int | None:
        """End what the process left behind, then bury it; its number is free only after that."""
        if not await processes.end(run.token, run.identity, patience_s=self._patience_s()):
            log.error("service %s left processes that cannot be killed", self.name)
        self._run = None
        return run.launched.child.wait() if run.launched else None

    async def _end_when_told(self, run: Run) -> None:
        await self._ground.changes.until(lambda: self._goal != "run")
        await processes.end(run.token, run.identity, patience_s=self._patience_s())

    async def _observe(self, run: Run) -> None:
        """Say when the process has started, and whether it is well."""
        health = self.settings.health
        if health is None:
            await anyio.sleep(STEADY_S)
            self.life.steady()
            self._ground.changes.tell()
            return
        interval_s = health.interval_ms / 1000
        environ = self._environ(run.token)
        while True:
            problem = await check(health, cwd=self._folder, env=environ)
            before = self.life.state
            self.life.checked(problem)
            if self.life.state != before:
                log.info("service %s is %s %s", self.name, self.life.state, self.life.detail)
                self._ground.changes.tell()
            is_starting = self.life.state == "starting"
            await anyio.sleep(min(interval_s, _START_CHECK_S) if is_starting else interval_s)

    async def _after(self, code: int | None) -> None:
        if self._goal == "run":
            await self._exited(code)
        else:
            await self._told_end()

    async def _told_end(self) -> None:
        self.life.ended()
        await self._note()
        self._ground.changes.tell()

    async def _exited(self, code: int | None, why: str = "") -> None:
        wait_s = self.life.exited(code, why)
        log.info("service %s %s", self.name, self.life.detail)
        if wait_s is None:
            self._goal = "stop"
        await self._note()
        self._ground.changes.tell()
        if wait_s is not None:
            with anyio.move_on_after(wait_s):
                await self._ground.changes.until(lambda: self._goal != "run")
            if self._goal == "stop":
                await self._told_end()

    def _patience_s(self) -> float:
        """Return how long the process may still take to end."""
        if self._stop_by is None:
            return self.settings.stop_timeout_s
        return max(0.0, self._stop_by - anyio.current_time())

    async def _note(self) -> None:
        """Write down how things are; a full disk keeps nobody from stopping a service."""
        if self._is_forgotten or not self._is_known:
            return
        try:
            await self._save()
        except Unavailable as error:
            log.warning("service %s is not written down: %s", self.name, error.message)

    async def _save(self) -> None:
        run = self._run
        await self._ground.records.save(
            Record(
                name=self.name,
                goal=self._goal,
                state=self.life.state,
                detail=self.life.detail,
                digest=self._digest,
                token=run.token if run else None,
                process=run.identity if run else None,
            )
        )

    @property
    def _folder(self) -> Path:
        return self.settings.folder(self._ground.home)

    def _environ(self, token: str) -> dict[str, str]:
        # What one session of an agent may do is not for what it happened to start.
        ours = {k: v for k, v in self._ground.environ.items() if k not in SESSION_VARIABLES}
        return {**ours, **self.settings.env, processes.TOKEN_VARIABLE: token}
