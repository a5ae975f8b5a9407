"""Importing Cortex must do nothing, and importing the bridge must load next to nothing."""

import json
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"
MODULES = sorted(
    ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
    for file in (SRC / "cortex").rglob("*.py")
)

# Runs before anything of ours: from then on, whatever would touch the world is refused. What a
# library tries and does without (urllib3 looks whether there is IPv6) did not happen.
GUARD = """
import importlib, json, os, sys

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = ("socket.", "subprocess.", "shutil.", "tempfile.", "sqlite3.",
             "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.chown", "os.link",
             "os.symlink", "os.truncate", "os.utime", "os.fork", "os.exec", "os.posix_spawn",
             "os.system", "os.kill", "os.putenv", "os.unsetenv", "signal.", "fcntl.")
attempts = []

def guard(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
    if writes or event.startswith(FORBIDDEN):
        frame = sys._getframe(1)
        while frame.f_globals["__name__"].split(".")[0] in sys.stdlib_module_names:
            frame = frame.f_back
        # NumPy sets a variable for the library it loads, and takes it back.
        if event in ("os.putenv", "os.unsetenv") and frame.f_globals["__name__"] == "numpy._core":
            return
        attempts.append((frame.f_globals["__name__"], f"{event} {arguments!r}"[:200]))
        raise PermissionError(f"{event} while importing")

before = set(sys.modules)
sys.addaudithook(guard)
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-B", "-c", GUARD + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_every_module_touches_nothing() -> None:
    """No socket, no file, no process, no change of the environment, no thread left behind."""
    code = f"""
import threading
for name in {MODULES!r}:
    importlib.import_module(name)
assert threading.active_count() == 1, threading.enumerate()
print(json.dumps(attempts))
"""
    attempts = json.loads(run(code))
    assert [attempt for attempt in attempts if attempt[0] != "urllib3.util.connection"] == []


def test_the_guard_would_notice() -> None:
    """A test of the test: it refuses what it is there to refuse."""
    code = """
import socket, subprocess
for touch in (
    lambda: open("x", "w"),
    lambda: os.mkdir("x"),
    lambda: socket.socket(),
    lambda: subprocess.Popen(["true"]),
):
    try:
        touch()
    except PermissionError:
        continue
    raise SystemExit("not refused")
"""
    run(code)


def test_the_bridge_loads_the_standard_library_and_little_of_that() -> None:
    """What each agent session pays: every module here is measured in benchmarks/startup.py."""
    code = """
importlib.import_module("cortex.edge.bridge")
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    # `json` and what it needs is the guard's own; a process without it is asked below.
    loaded = json.loads(run(code))
    ours = {name for name in loaded if name.split(".")[0] == "cortex"}
    allowed = {"cortex", "cortex.home", "cortex.edge"}
    assert {name for name in ours if not name.startswith("cortex.edge.")} <= allowed
    foreign = {name.split(".")[0] for name in loaded} - {"cortex"} - sys.stdlib_module_names
    assert foreign == set()


def test_the_bridge_does_without_the_slow_modules() -> None:
    code = "import sys, cortex.edge.bridge; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(SRC)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    slow = {"json", "socket", "typing", "pathlib", "re", "argparse", "subprocess", "asyncio"}
    assert set(done.stdout.split()) & slow == set()
