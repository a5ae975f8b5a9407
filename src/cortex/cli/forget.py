"""Forgetting past sessions: shown first, asked for, and taken back if need be."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from cortex.cli.client import Daemon
from cortex.cli.render import print_fields, print_json, print_table
from cortex.cli.sessions import folder
from cortex.errors import InvalidParams
from cortex.home import Home

_STATES = {
    "removing": "being removed",
    "removed": "removed, leaving the disk",
    "erased": "removed, off the disk",
}


@click.command()
@click.option("--session", metavar="ID", help="Forget this session, and those of its subagents.")
@click.option("--before", metavar="DATE", help="Forget what happened before this day or moment.")
@click.option("--project", metavar="PATH", help="Forget the sessions at or below this folder.")
@click.option("--list", "as_list", is_flag=True, help="Show what was forgotten.")
@click.option("--undo", metavar="ID", help="Let it be read again, from files that are still there.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; implies that nobody is asked.")
def forget(
    *,
    session: str | None,
    before: str | None,
    project: str | None,
    as_list: bool,
    undo: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Remove past sessions for good: from every table and index, and off the disk.

    What is forgotten stays so when its files are read again; the files themselves are untouched.
    """
    chosen = {"session": session, "before": before, "project": project, "undo": undo}
    given = [name for name, value in chosen.items() if value]
    if len(given) + as_list != 1:
        raise click.UsageError("one of --session, --before, --project, --list, --undo")
    with Daemon.reach(Home.from_environ(os.environ), "control") as daemon:
        if as_list:
            return _print_rules(daemon.ask("forget", {"action": "list"}), as_json=as_json)
        if undo:
            return _print_undone(
                daemon.ask("forget", {"action": "undo", "id": undo}), as_json=as_json
            )
        scope = given[0]
        value = folder(project) if project else str(chosen[scope])
        wanted = {"scope": scope, "value": value}
        preview = daemon.ask("forget", {**wanted, "action": "preview"})
        if dry_run or not any(preview["counts"].values()):
            _print_preview(preview, as_json=as_json)
            return 0
        if not yes:
            _ask(preview, can_ask=sys.stdin.isatty() and not as_json)
        answer = daemon.ask("forget", {**wanted, "action": "forget"})
    return _print_forgotten(answer["rule"], as_json=as_json)


def _ask(preview: Mapping[str, Any], *, can_ask: bool) -> None:
    if not can_ask:
        raise InvalidParams(
            f"{preview['counts']['events']} events of {preview['sessions']} sessions would go;"
            " --yes does it, --dry-run shows more"
        )
    _print_preview(preview, as_json=False)
    click.confirm("Forget this?", abort=True)


def _print_preview(preview: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(preview)
    elif not any(preview["counts"].values()):
        click.echo("nothing to forget")
    else:
        print_fields(
            [
                ("sessions", preview["sessions"]),
                ("from", (preview["first"] or "")[:16]),
                ("to", (preview["last"] or "")[:16]),
                *((f"rows of {table}", n) for table, n in preview["counts"].items() if n),
            ]
        )


def _print_forgotten(rule: Mapping[str, Any] | None, *, as_json: bool) -> int:
    if as_json:
        print_json({"rule": rule})
    elif rule is None:
        click.echo("nothing to forget")
    else:
        count = rule["counts"]["events"]
        click.echo(f"{count} events forgotten; their files leave the disk within a minute.")
        click.echo("It stays so when session files are read again.")
        click.secho(f"cortex forget --undo {rule['id']} lets it be read again", fg="cyan")
    return 0


def _print_rules(answer: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        print_json(answer)
    elif not answer["rules"]:
        click.echo("nothing was forgotten")
    else:
        print_table(
            ["ID", "WHEN", "EVENTS", "STATE", "WHAT"],
            [
                [
                    rule["id"],
                    rule["at"][:16].replace("T", " "),
                    rule["counts"]["events"],
                    _STATES[rule["state"]],
                    f"{rule['scope']} {rule['value']}",
                ]
                for rule in answer["rules"]
            ],
        )
    return 0


def _print_undone(answer: Mapping[str, Any], *, as_json: bool) -> int:
    rule = answer["rule"]
    if as_json:
        print_json(answer)
    else:
        click.echo(
            f"{rule['scope']} {rule['value']} is read again, from those of its"
            f" {rule['files']} files that are still there"
        )
    return 0
