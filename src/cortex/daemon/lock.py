"""One daemon per home: a lock the kernel holds for us and gives back however we end."""

import fcntl
import os
import time
from pathlib import Path

from cortex.errors import Conflict, HomeError
from cortex.home import Home

# `holder` takes the lock for a moment to see whether it is free; that is no daemon.
_GLANCE_S = 0.25


class HomeHeld(Conflict):
    """Another daemon runs on this home."""

    def __init__(self, home: Home, pid: str) -> None:
        super().__init__(f"the daemon of {home} runs already (pid {pid})")
        self.pid = pid


class HomeLock:
    """The lock of one home; a file left behind by a dead daemon means nothing."""

    def __init__(self, home: Home, handle: int) -> None:
        self._home = home
        self._handle = handle

    @classmethod
    def acquire(cls, home: Home) -> "HomeLock":
        """Take the lock, or raise `HomeHeld` with the pid of who has it."""
        try:
            handle = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeError(f"cannot use {home.lock}: {error.strerror}") from error
        try:
            _lock(handle)
            pid = f"{os.getpid()}\n".encode()
            os.ftruncate(handle, 0)
            os.pwrite(handle, pid, 0)
            Path(home.pid).write_bytes(pid)
        except BlockingIOError:
            pid = os.pread(handle, 32, 0)
            os.close(handle)
            raise HomeHeld(home, pid.decode("ascii", "replace").strip() or "unknown") from None
        except OSError as error:
            os.close(handle)
            raise HomeError(
                f"cannot write to the home {home}: {error.strerror}",
                hint="see whether its disk is full or read-only",
            ) from error
        return cls(home, handle)

    def release(self) -> None:
        """Give the lock back."""
        Path(self._home.pid).unlink(missing_ok=True)
        os.close(self._handle)


def _lock(handle: int) -> None:
    deadline = time.monotonic() + _GLANCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def holder(home: Home) -> int | None:
    """Return the pid of the daemon that holds the home, or None if none does."""
    try:
        handle = os.open(home.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(handle, 32, 0).strip()
        return int(pid) if pid.isdigit() else None
    finally:
        os.close(handle)
    return None
