"""Commands about the daemon: up, down, status, logs, mcp, run."""

import contextlib
import itertools
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import Any, TextIO

import click

from cortex.cli.client import Daemon, NotRunning, launch_error
from cortex.cli.render import print_fields, print_json, print_table
from cortex.edge.launch import LaunchFailed, connect, daemon_command, wait
from cortex.errors import Conflict, NotFound, Unavailable
from cortex.home import Home

_STOP_TIMEOUT_S = 15.0

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file; else $CORTEX_CONFIG, else cortex.toml in the home.",
)


def _home() -> Home:
    return Home.from_environ(os.environ)


@contextlib.contextmanager
def _busy(what: str) -> Generator[None]:
    """Show that something goes on, to a person."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415  # 60 ms, only for a terminal

    with Console(stderr=True).status(what):
        yield


@click.command()
@click.option("--foreground", is_flag=True, help="Stay in this terminal; Ctrl-C stops it.")
@config_option
def up(*, foreground: bool, config: Path | None) -> int:
    """Start the daemon, if it does not run yet."""
    home = _home()
    # Not resolved further: `cortex mcp` names a file the same way, and the names must agree.
    path = Path(os.path.abspath(config.expanduser())) if config else None  # noqa: PTH100
    if foreground:
        from cortex.daemon.main import run_daemon  # noqa: PLC0415  # the whole daemon

        return run_daemon(home, path, os.environ)
    try:
        was_running = connect(home) is not None
        with _busy("starting the daemon"):
            wait(home, daemon_command(str(path) if path else None), keep_environ=True)
    except LaunchFailed as error:
        raise launch_error(error) from error
    with Daemon.reach(home, "control", start=False) as daemon:
        answer = daemon.ask("status")
    if path and answer["config"] != str(path):
        raise Conflict(
            f"the daemon of this home (pid {answer['pid']}) runs with"
            f" {answer['config'] or 'no configuration file'}, not with {path}",
            hint="stop it with `cortex down` first",
        )
    word = "is already up" if was_running else "is up"
    click.echo(f"cortex {word}: pid {answer['pid']}, home {answer['home']}")
    for notice in answer["notices"]:
        click.secho(f"! {notice}", fg="yellow")
    return 0


@click.command()
def down() -> int:
    """Stop the daemon: calls in flight are finished, at most 10 seconds long."""
    from cortex.daemon.lock import holder  # noqa: PLC0415

    home = _home()
    pid = holder(home)
    if pid is None:
        click.echo("cortex is not running")
        return 0
    with _busy("stopping the daemon"):
        try:
            with Daemon.reach(home, "control", start=False) as daemon:
                daemon.ask("stop")
        except Unavailable:
            # It holds the home but does not listen: it is stopping already, or stuck.
            _signal(pid, signal.SIGTERM)
        if not _wait_gone(home, pid):
            _signal(pid, signal.SIGKILL)
            _wait_gone(home, pid)
            click.echo(f"cortex did not stop within {_STOP_TIMEOUT_S:.0f} s and was killed")
            return 1
    click.echo("cortex is down")
    return 0


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_gone(home: Home, pid: int) -> bool:
    from cortex.daemon.lock import holder  # noqa: PLC0415

    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while time.monotonic() < deadline:
        if holder(home) != pid:
            return True
        time.sleep(0.02)
    return False


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, as_json: bool) -> int:
    """Show what the daemon does; exits 1 if it does not run."""
    home = _home()
    try:
        with Daemon.reach(home, "control", start=False) as daemon:
            answer = daemon.ask("status")
    except NotRunning:
        if as_json:
            print_json({"running": False, "home": home.root})
        else:
            click.echo(f"cortex is not running (home {home}); `cortex up` starts it")
        return 1
    if as_json:
        print_json({"running": True, **answer})
    else:
        _print_status(answer)
    return 0


def _print_status(answer: dict[str, Any]) -> None:
    store, audit = answer["store"], answer["audit"]
    print_fields(
        [
            ("cortex", f"{answer['version']}, pid {answer['pid']}, {answer['memoryMB']} MB"),
            ("up since", f"{answer['startedAt']} ({answer['uptimeSec']:.0f} s)"),
            ("home", answer["home"]),
            ("config", answer["config"] or "none: defaults"),
            ("store", f"{store['kind']}, ClickHouse {store['version']}, {store['address']}"),
            ("http", answer["http"] or "off"),
            ("audit", f"{audit['records']} records{_problem(audit['lastError'])}"),
            *_coverage(answer["ingest"]),
            *_projects(answer["projects"]),
        ]
    )
    for notice in answer["notices"]:
        click.secho(f"! {notice}", fg="yellow")
    click.echo()
    print_table(
        ["JOB", "OWNER", "STATE", "RESTARTS", "LAST ERROR"],
        [
            [j["name"], j["owner"], j["state"], j["restarts"], j["lastError"] or ""]
            for j in answer["jobs"]
        ],
    )
    click.echo()
    if answer["sessions"]:
        print_table(
            ["CLIENT", "VIA", "SINCE", "FOLDER"],
            [
                [s["client"], s["transport"], s["openedAt"], s["cwd"] or ""]
                for s in answer["sessions"]
            ],
        )
    else:
        click.echo("no sessions are open")


def _coverage(ingest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is read, how far that is, and what went wrong, line by line."""
    done = f"{ingest['files_done']} of {ingest['files_known']} session files"
    read_mb, known_mb = ingest["bytes_done"] / 1e6, ingest["bytes_known"] / 1e6
    is_behind = ingest["files_done"] < ingest["files_known"]
    lag = f"{ingest['lag_s']:.0f} s behind" if is_behind else "up to date"
    lines = [("ingest", f"{done}, {read_mb:.1f} of {known_mb:.1f} MB, {lag}")]
    if ingest["errors"]:
        lines.append(("unreadable", f"{ingest['errors']} records, in the table ingest_errors"))
    if ingest["last_error"]:
        lines.append(("last error", ingest["last_error"]))
    if ingest["redactions"]:
        counted = sorted(ingest["redactions"].items(), key=lambda rule: (-rule[1], rule[0]))
        lines.append(("redacted", ", ".join(f"{rule} {count}" for rule, count in counted)))
    return lines


def _projects(projects: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return how far the vectors of each open project are, and what went wrong."""
    lines: list[tuple[str, str]] = []
    for project in projects:
        done, chunks = project["chunks_with_vectors"], project["chunks"]
        lines.append(("code", f"{project['folder']}, vectors of {done:,} of {chunks:,} chunks"))
        if project["last_error"]:
            lines.append(("last error", project["last_error"]))
    return lines


def _problem(text: str | None) -> str:
    return f", last write failed: {text}" if text else ""


@click.command()
@click.argument("service", default="daemon", type=click.Choice(["daemon", "stderr"]))
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is written.")
@click.option(
    "-n",
    "--lines",
    default=200,
    show_default=True,
    type=click.IntRange(min=0),
    help="How many lines to begin with.",
)
def logs(*, service: str, follow: bool, lines: int) -> int:
    """Print a service's log: daemon, or stderr of its process."""
    home = _home()
    files = {"daemon": home.log_file, "stderr": home.crash_file}
    if service not in files:
        raise NotFound("service", service, known=sorted(files))
    path = Path(files[service])
    if not path.exists():
        raise Unavailable(f"there is no log yet at {path}", hint="start it with `cortex up`")
    file = path.open(encoding="utf-8", errors="replace")
    for line in deque(file, maxlen=max(lines, 0)):
        click.echo(line, nl=False)
    if follow:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(path, file)
    return 0


def _follow(path: Path, file: TextIO) -> None:
    """Print what is added, also after the file was put aside for a new one, or begun anew."""
    while True:
        if text := file.read():
            click.echo(text, nl=False)
            continue
        successor = _successor(path, file)
        if successor is None:
            time.sleep(0.2)
            if os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)
        else:
            # What was written between our last look and the change of files comes first.
            click.echo(file.read(), nl=False)
            file.close()
            file = successor


def _successor(path: Path, file: TextIO) -> TextIO | None:
    """Open the file that was begun after this one: several may be, between two looks."""
    ours = os.fstat(file.fileno()).st_ino
    newer = path
    try:
        if newer.stat().st_ino == ours:
            return None
        for number in itertools.count(1):
            older = path.with_name(f"{path.name}.{number}")
            if not older.exists() or older.stat().st_ino == ours:
                break
            newer = older
        return newer.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None  # in the middle of being renamed: look again


@click.command()
@click.option("--toolsets", metavar="a,b", help="Offer only these toolsets.")
@config_option
def mcp(*, toolsets: str | None, config: Path | None) -> int:
    """Speak MCP on stdin and stdout: the command to give to an agent.

    The session lives as long as stdin is open; the daemon is started if none runs.
    """
    from cortex.edge.bridge import main as bridge  # noqa: PLC0415

    arguments = ["--toolsets", toolsets] if toolsets else []
    return bridge([*arguments, *(["--config", str(config)] if config else [])])


@click.command()
@click.argument("service", type=click.Choice(["daemon", "mcp", "embed"]))
@click.option("--toolsets", metavar="a,b", help="With mcp: offer only these toolsets.")
@config_option
@click.pass_context
def run(context: click.Context, *, service: str, toolsets: str | None, config: Path | None) -> int:
    """Run one part in the foreground: the daemon, the bridge of one agent, or `cortex-embed`."""
    if service == "embed":
        from cortex.embedding.main import main as embed  # noqa: PLC0415  # a server

        return embed(["--config", str(config)] if config else [])
    if service == "mcp":
        return int(context.invoke(mcp, toolsets=toolsets, config=config))
    return int(context.invoke(up, foreground=True, config=config))
