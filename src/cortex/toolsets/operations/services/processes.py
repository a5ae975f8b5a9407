"""Processes that need not be our children: who they are, when they end, and how they are ended."""

import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import psutil

TOKEN_VARIABLE = "CORTEX_SERVICE_TOKEN"  # noqa: S105  # a mark, no secret

_POLL_S = 0.05
# How long a killed process may take to be gone: it may hang in the kernel, on a dead disk.
_KILL_S = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one boot of the machine; the number alone is given out again."""

    pid: int
    started: str  # as the kernel counts it: a wall clock that is corrected does not move it
    boot: str

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs; one that only waits to be buried does not."""
        return identify(self.pid) == self


@functools.cache
def boot_id() -> str:
    """Return what tells this boot of the machine from all others."""
    if sys.platform == "linux":
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return str(int(psutil.boot_time()))


def identify(pid: int) -> Identity | None:
    """Return who has this number now, if anybody who is alive."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The name, in parentheses, may hold anything; the fields after it may not.
        fields = stat[stat.rindex(")") + 2 :].split()
        return None if fields[0] in "ZXx" else Identity(pid, fields[19], boot_id())
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid, repr(process.create_time()), boot_id())
    except psutil.NoSuchProcess:
        return None


def uptime_s(identity: Identity) -> float:
    """Return for how long the process has run."""
    try:
        return max(0.0, time.time() - psutil.Process(identity.pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def memory_mb(identity: Identity) -> int | None:
    """Return the memory of the process alone, if it is there."""
    with contextlib.suppress(psutil.Error):
        if identity.is_alive:
            return psutil.Process(identity.pid).memory_info().rss // (1024 * 1024)
    return None


async def gone(identity: Identity) -> None:
    """Return when the process has ended, buried or not, whosever child it is."""
    async with _handle(identity) as handle:
        if handle is not None:
            if identity.is_alive:  # asked after the handle was opened: the handle is of this one
                await anyio.wait_readable(handle)
            return
        while identity.is_alive:  # noqa: ASYNC110  # nobody tells us of it
            await anyio.sleep(_POLL_S)


@contextlib.asynccontextmanager
async def _handle(identity: Identity) -> AsyncGenerator[int | None]:
    handle = None
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # gone already, or a kernel before 5.3
            handle = os.pidfd_open(identity.pid)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def members(token: str, leader: Identity | None) -> list[psutil.Process]:
    """Return all live processes of one run: its group, and what left the group but has its mark."""
    is_group_ours = leader is not None and identify(leader.pid) in (leader, None)
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            is_in_group = (
                is_group_ours and leader is not None and os.getpgid(process.pid) == leader.pid
            )
            if is_in_group or process.environ().get(TOKEN_VARIABLE) == token:
                found.append(process)
    return found


async def end(token: str, leader: Identity | None, *, patience_s: float) -> bool:
    """End every process of a run: SIGTERM, and SIGKILL when patience is out; whether all went.

    With no patience there is no SIGTERM at all.
    """
    run = functools.partial(members, token, leader)
    if patience_s > 0:
        await _signal(run, leader, signal.SIGTERM)
        with anyio.move_on_after(patience_s):
            if leader is not None:
                await gone(leader)
            while await anyio.to_thread.run_sync(run):  # noqa: ASYNC110  # nor of these
                await anyio.sleep(_POLL_S)
            return True
    with anyio.move_on_after(_KILL_S):
        # Again and again: what was not there yet may have been forked meanwhile.
        while await _signal(run, leader, signal.SIGKILL):  # noqa: ASYNC110
            await anyio.sleep(_POLL_S)
        return True
    return False


async def _signal(
    run: Callable[[], list[psutil.Process]], leader: Identity | None, number: signal.Signals
) -> int:
    """Signal the whole group at once, then what is outside of it; return how many there were."""
    found = await anyio.to_thread.run_sync(run)
    group = None
    if leader is not None and leader.is_alive:
        group = leader.pid
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for process in found:
        # psutil looks at the start time first, so that no stranger with the number is hit.
        # One that became another user's cannot be ended by us; `end` then says so.
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) != group:
                process.send_signal(number)
    return len(found)
