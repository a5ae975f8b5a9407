import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cortex.daemon.lock import HomeHeld, HomeLock, holder
from cortex.errors import HomeError
from cortex.home import Home

# Takes the lock as a daemon does, says so, and waits to be killed.
OTHER = """
import sys
from cortex.daemon.lock import HomeLock
from cortex.home import Home
lock = HomeLock.acquire(Home(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path))
    Path(home.run).mkdir()
    return home


def test_lock_tells_its_holder_while_it_is_held(home: Home) -> None:
    assert holder(home) is None
    lock = HomeLock.acquire(home)
    assert holder(home) == os.getpid()
    assert Path(home.pid).read_text() == f"{os.getpid()}\n"
    lock.release()
    assert holder(home) is None
    assert not Path(home.pid).exists()


def test_second_daemon_is_told_who_holds_the_home(home: Home) -> None:
    lock = HomeLock.acquire(home)
    with pytest.raises(HomeHeld, match=f"runs already \\(pid {os.getpid()}\\)") as caught:
        HomeLock.acquire(home)
    assert caught.value.pid == str(os.getpid())
    lock.release()
    HomeLock.acquire(home).release()


def test_lock_of_a_killed_process_is_free_whatever_its_file_says(home: Home) -> None:
    command = [sys.executable, "-c", OTHER, home.root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert holder(home) == other.pid
        other.kill()
        other.wait()
    assert Path(home.lock).read_text() == f"{other.pid}\n"
    assert holder(home) is None
    lock = HomeLock.acquire(home)
    assert holder(home) == os.getpid()
    lock.release()


def test_holder_that_does_not_say_who_it_is_is_unknown(home: Home) -> None:
    handle = os.open(home.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(HomeHeld, match="pid unknown"):
        HomeLock.acquire(home)
    assert holder(home) is None
    os.close(handle)


def test_command_that_looks_does_not_keep_a_daemon_from_starting(home: Home) -> None:
    """To see whether the lock is free, `down` takes it for a moment."""
    glance = os.open(home.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(glance, fcntl.LOCK_EX)
    threading.Timer(0.05, os.close, [glance]).start()
    HomeLock.acquire(home).release()


def test_lock_that_cannot_be_made_is_an_error_of_the_home(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    Path(home.run).write_text("")
    with pytest.raises(HomeError, match="Not a directory"):
        HomeLock.acquire(home)
    assert holder(home) is None
