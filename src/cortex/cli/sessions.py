"""The list of past sessions."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cortex.cli.client import Daemon
from cortex.cli.render import print_json, print_table
from cortex.home import Home

_HEAD = ("UPDATED", "AGENT", "PROJECT", "TITLE", "TURNS", "TOKENS", "SESSION")


@click.command()
@click.option("--since", help="Only what went on after this moment, such as 2026-01-31.")
@click.option("--until", help="Only what went on before this moment.")
@click.option("--project", help="Only sessions at or below this folder.")
@click.option("--harness", help="Only this agent: claude-code, codex, …")
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Most sessions to show.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sessions(
    *,
    since: str | None,
    until: str | None,
    project: str | None,
    harness: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """List past sessions of any agent, newest first."""
    arguments = {
        "since": since,
        "until": until,
        "project": folder(project) if project else None,
        "harness": harness,
        "limit": limit,
    }
    with Daemon.reach(Home.from_environ(os.environ), "control") as daemon:
        answer = daemon.ask("sessions", arguments)
    if as_json:
        print_json(answer)
        return 0
    found = answer["sessions"]
    if not found:
        click.echo("no sessions")
    elif sys.stdout.isatty():
        _print_in_colour(found)
    else:
        print_table(_HEAD, map(_cells, found))
    if answer["total"] > len(found):
        click.secho(f"{len(found)} of {answer['total']} sessions; --limit shows more", dim=True)
    return 0


def folder(path: str) -> str:
    """Return the full name of a folder, as agents write it; it need not be there any more."""
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100  # a link keeps its name


def _cells(session: Mapping[str, Any]) -> list[str]:
    tokens = session["tokens"]
    home = os.path.expanduser("~")  # noqa: PTH111  # a prefix, not a path
    project = session["project"]
    is_own = project == home or project.startswith(home + "/")
    return [
        session["updated_at"][:16].replace("T", " "),
        session["harness"],
        "~" + project[len(home) :] if is_own else project,
        session["title"],
        str(session["turns"]),
        _short(tokens["input"] + tokens["output"]),
        session["session_id"],
    ]


def _short(count: int) -> str:
    """Write a number in at most five characters."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _print_in_colour(found: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console  # noqa: PLC0415  # 60 ms, only for a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _HEAD:
        is_number = name in {"TURNS", "TOKENS"}
        table.add_column(
            name,
            justify="right" if is_number else "left",
            no_wrap=name != "TITLE",
            overflow="fold" if name == "SESSION" else "ellipsis",
        )
    styles = ("green", "magenta", "blue", "bold", "", "", "dim")
    for session in found:
        # As text: a title may hold what rich would take for markup.
        cells = zip(_cells(session), styles, strict=True)
        table.add_row(*(Text(cell, style) for cell, style in cells))
    Console().print(table)
