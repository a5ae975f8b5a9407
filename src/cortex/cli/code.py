"""Commands about code: index a project."""

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cortex.errors import CortexError
from cortex.home import Home

if TYPE_CHECKING:
    from cortex.indexer import Progress as Progressed
    from cortex.indexer import ProjectIndex, Report

_MAX_PROBLEMS = 20


@click.command()
@click.argument(
    "path",
    default=".",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
)
@click.option("--watch", is_flag=True, help="Go on, and index again when files change.")
@click.option("--quiet", "-q", is_flag=True, help="Say only what went wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each round.")
@click.option("--re-embed", is_flag=True, help="Drop all vectors, so that they are made again.")
def index(*, path: Path, watch: bool, quiet: bool, as_json: bool, re_embed: bool) -> int:
    """Cut the code and documents below PATH into chunks that agents can search.

    Only what changed is read again. Writes `.cortex/chunks` in PATH; vectors follow in the
    background while the daemon runs.
    """
    from cortex.indexer import ProjectIndex  # noqa: PLC0415  # parsers, only for this command

    project = ProjectIndex(path, os.environ.get("CORTEX_CHUNKS_DIR"))

    def show(report: "Report", *, is_first: bool = True) -> None:
        _complain_of(report)
        if as_json:
            from cortex.cli.render import print_json  # noqa: PLC0415  # 100 ms

            print_json({**report.values(), "chunks_dir": str(project.folder)})
        elif not quiet and (is_first or report.has_changed):
            _print(report)

    with _progress(is_wanted=not quiet and not as_json) as tell:
        report = project.run(tell)
    if re_embed:
        report.has_changed = project.drop_vectors() > 0 or report.has_changed
    show(report)
    _follow_up(project, may_ask=not quiet and not as_json)
    if watch:
        if not quiet and not as_json:
            click.secho(f"watching {path}; Ctrl+C ends it", dim=True, err=True)
        for report in project.watch(lambda _: None, _warn, threading.Event()):
            show(report, is_first=False)
            if report.has_changed:
                _follow_up(project, may_ask=False)
    return 0


def _follow_up(project: "ProjectIndex", *, may_ask: bool) -> None:
    """Have vectors made, and see whether those that are there are of the model in use."""
    made_by = project.model_of_vectors()
    in_use = _told_daemon(project) if Path(Home.from_environ(os.environ).socket).exists() else None
    if made_by and in_use is None:
        from cortex.indexer import configured_model  # noqa: PLC0415

        in_use = configured_model(os.environ)
    if not made_by or not in_use or in_use == made_by:
        return
    _warn(f"the vectors are by {made_by}, and {in_use} is in use")
    if may_ask and sys.stdin.isatty() and sys.stderr.isatty():
        if click.confirm("Drop them, so that they are made again?", err=True):
            project.drop_vectors()
    else:
        _warn("`cortex index --re-embed` drops them, so that they are made again")


def _told_daemon(project: "ProjectIndex") -> str | None:
    """Tell the daemon, if one runs; returns the model it embeds with, or None without a daemon."""
    from cortex.cli.client import Daemon, NotRunning  # noqa: PLC0415  # 100 ms

    try:
        with Daemon.reach(Home.from_environ(os.environ), "control", start=False) as daemon:
            answer = daemon.ask("code.refresh", {"folder": str(project.folder)})
    except NotRunning:
        return None
    except CortexError as error:
        _warn(f"the daemon does not take it up: {error}")
        return None
    if answer["problem"]:
        _warn(f"no vectors for now: {answer['problem']}")
    return str(answer["model"])


def _print(report: "Report") -> None:
    chunks = sum(report.chunks.values())
    click.echo(
        f"{chunks:,} chunks of {report.files:,} files in {report.took_s:.1f} s"
        f" ({report.files_parsed:,} read anew, {report.files_removed:,} gone)"
    )
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in report.skipped.most_common())
    if skipped:
        click.secho(f"left out: {skipped}", dim=True)


def _complain_of(report: "Report") -> None:
    for path, reason in list(report.problems.items())[:_MAX_PROBLEMS]:
        _warn(f"{path}: {reason}")
    if len(report.problems) > _MAX_PROBLEMS:
        _warn(f"and {len(report.problems) - _MAX_PROBLEMS} more files could not be read")


def _warn(text: str) -> None:
    click.echo(f"{click.style('cortex:', fg='yellow')} {text}", err=True)


@contextmanager
def _progress(*, is_wanted: bool) -> "Generator[Callable[[Progressed], None]]":
    """Show a bar with files, chunks a second and the time left, on a terminal."""
    if not is_wanted or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  # 60 ms, only for a terminal
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        MofNCompleteColumn(),
        TextColumn("files"),
        BarColumn(),
        TextColumn("{task.fields[rate]:.0f} chunks/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rate=0.0)

        def tell(progress: "Progressed") -> None:
            elapsed_s = bar.tasks[0].elapsed or 1.0
            rate = progress.chunks / elapsed_s
            bar.update(task, total=progress.files, completed=progress.files_done, rate=rate)

        yield tell
