"""`cortex doctor`: looks at everything that may be wrong and says the command that mends it."""

import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click

from cortex.cli.client import Daemon, NotRunning
from cortex.cli.render import print_json, print_mark
from cortex.errors import CortexError, Unavailable
from cortex.home import MAX_SOCKET_PATH_BYTES, Home
from cortex.version import __version__

_LOW_DISK_BYTES = 1024**3
_NO_DISK_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    check: str
    level: Literal["ok", "warn", "fail"]
    text: str
    mend: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(*, as_json: bool) -> int:
    """Explain what is wrong on this machine, and how to mend it; exits 1 if something is."""
    home = Home.from_environ(os.environ)
    findings = list(examine(home))
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mend = f"; {finding.mend}" if finding.mend else ""
            print_mark(finding.level, f"{finding.check}: {finding.text}{mend}")
    return 1 if any(finding.level == "fail" for finding in findings) else 0


def examine(home: Home) -> Iterator[Finding]:
    """Look at everything, in the order in which one thing needs the other."""
    checks: tuple[Callable[[Home], Generator[Finding]], ...] = (
        _python,
        _home,
        _disk,
        _configuration,
        _damaged_files,
        _daemon,
    )
    for check in checks:
        yield from check(home)


def _python(_home: Home) -> Generator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", f"{version} at {sys.executable}")


def _home(home: Home) -> Generator[Finding]:
    root = Path(home.root)
    socket_bytes = len(os.fsencode(home.socket))
    if socket_bytes > MAX_SOCKET_PATH_BYTES:
        yield Finding(
            "home",
            "fail",
            f"{home.socket} is too long for a socket: {socket_bytes} bytes",
            f"set CORTEX_HOME to a folder at least {socket_bytes - MAX_SOCKET_PATH_BYTES} shorter",
        )
    nearest = _nearest(root)
    if nearest != root and not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding(
            "home",
            "fail",
            f"{home} cannot be made: {nearest} is not writable",
            "set CORTEX_HOME to a folder of yours",
        )
    elif nearest != root:
        yield Finding("home", "ok", f"{home} (not made yet)")
    elif not root.is_dir():
        yield Finding("home", "fail", f"{home} is not a folder", "set CORTEX_HOME to a folder")
    elif root.stat().st_uid != os.getuid():
        yield Finding(
            "home",
            "fail",
            f"{home} belongs to another user",
            "set CORTEX_HOME to a folder of yours",
        )
    elif not os.access(root, os.W_OK | os.X_OK):
        yield Finding("home", "fail", f"{home} is not writable", f"chmod u+rwx {home}")
    elif root.stat().st_mode & 0o077:
        yield Finding("home", "warn", f"{home} can be read by others", f"chmod 700 {home}")
    else:
        yield Finding("home", "ok", home.root)


def _disk(home: Home) -> Generator[Finding]:
    folder = _nearest(Path(home.root))
    free_bytes = shutil.disk_usage(folder).free
    text = f"{free_bytes / 1024**3:.1f} GiB free at {folder}"
    if free_bytes < _NO_DISK_BYTES:
        yield Finding("disk", "fail", text, "make room: nothing can be stored")
    elif free_bytes < _LOW_DISK_BYTES:
        yield Finding("disk", "warn", text, "make room soon")
    else:
        yield Finding("disk", "ok", text)


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest above it that can be seen."""
    while not os.access(folder, os.F_OK):
        folder = folder.parent
    return folder


def _configuration(home: Home) -> Generator[Finding]:
    from cortex.settings.load import load_settings  # noqa: PLC0415

    try:
        loaded = load_settings(home=Path(home.root), config=None, environ=os.environ)
    except CortexError as error:
        yield Finding("config", "fail", str(error), "cortex config show tells when it is right")
        return
    where = str(loaded.config_path) if loaded.config_path else "no file: defaults"
    ignored = f", {len(loaded.ignored)} keys without use here" if loaded.ignored else ""
    yield Finding("config", "ok", where + ignored)


def _damaged_files(home: Home) -> Generator[Finding]:
    for path in sorted(Path(home.root).glob("*.corrupt-*")):
        if not path.name.endswith(("-wal", "-shm")):
            yield Finding(
                "state",
                "warn",
                f"{path} was damaged and moved aside",
                "look at it, then move it away",
            )


def _not_running(home: Home, error: CortexError) -> Finding:
    """Say that there is no daemon and, if the last start failed, why."""
    try:
        _, _, problem = Path(home.start_error).read_text("utf-8").strip().partition(" ")
    except FileNotFoundError:
        return Finding("daemon", "warn", error.message, "cortex up")
    return Finding("daemon", "fail", f"the last start failed: {problem}", "mend it, then cortex up")


def _daemon(home: Home) -> Generator[Finding]:
    try:
        with Daemon.reach(home, "control", start=False) as daemon:
            status = daemon.ask("status")
            audit = daemon.ask("verify")
    except NotRunning as error:
        yield _not_running(home, error)
        return
    except Unavailable as error:
        yield Finding("daemon", "fail", str(error))
        return
    except CortexError as error:
        yield Finding("daemon", "fail", str(error), "cortex down && cortex up")
        return
    yield from _running(status, audit)


def _running(status: dict[str, Any], audit: dict[str, Any]) -> Generator[Finding]:
    if status["version"] == __version__:
        yield Finding("daemon", "ok", f"{status['version']}, pid {status['pid']}")
    else:
        text = f"runs version {status['version']}, this is {__version__}"
        yield Finding("daemon", "warn", text, "cortex down && cortex up")
    for notice in status["notices"]:
        yield Finding("daemon", "warn", notice)
    store = status["store"]
    yield Finding("store", "ok", f"{store['kind']}, ClickHouse {store['version']}")
    for job in status["jobs"]:
        if job["state"] == "running":
            yield Finding(f"job {job['name']}", "ok", f"running since {job['since']}")
        else:
            text = f"{job['state']}, last error: {job['lastError']}"
            yield Finding(f"job {job['name']}", "fail", text, "cortex logs")
    if problem := status["audit"]["lastError"]:
        yield Finding("audit", "fail", f"a call could not be recorded: {problem}", "make room")
    for fault in audit["faults"]:
        yield Finding("audit", "fail", f"record {fault['seq']} {fault['problem']}")
    if not audit["faults"]:
        yield Finding("audit", "ok", f"{audit['records']} records, chain unbroken")
