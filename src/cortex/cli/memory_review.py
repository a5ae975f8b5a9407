"""Review at a terminal: one memory after the other, and what a person says to each."""

from collections.abc import Mapping
from typing import Any

import click

from cortex.cli.client import Daemon
from cortex.errors import CortexError

_KEYS = {"a": "accept", "e": "edit", "r": "reject", "t": "retire", "s": "skip", "q": "quit"}
_PROMPT = "[a]ccept [e]dit [r]eject re[t]ire [s]kip [q]uit"


def review_all(daemon: Daemon, answer: Mapping[str, Any]) -> int:
    """Show each memory that waits and do what the person says."""
    waiting = answer["waiting"]
    if not waiting:
        click.echo("nothing waits for review")
        return 0
    for number, found in enumerate(waiting, 1):
        click.secho(f"\n{number} of {answer['total']}", dim=True)
        if not _review(daemon, found):
            break
    return 0


def _review(daemon: Daemon, found: Mapping[str, Any]) -> bool:
    """Review one memory; False ends the round."""
    _show(found)
    while True:
        key = click.prompt(_PROMPT, type=click.Choice(list(_KEYS)), show_choices=False)
        decision = _KEYS[key]
        if decision in ("skip", "quit"):
            return decision == "skip"
        order = {"id": found["id"], "decision": decision, "is_person": True}
        if decision == "edit":
            order["text"] = click.prompt("claim", default=found["claim"])
        elif decision in ("reject", "retire"):
            order["text"] = click.prompt("why")
        try:
            daemon.ask("memory.decide", order)
        except CortexError as error:  # a rule said no: the person may still reject or skip it
            click.secho(str(error), fg="red")
            continue
        click.secho(f"{found['id']}: {decision}", fg="green")
        if decision != "edit":
            return True


def _show(found: Mapping[str, Any]) -> None:
    click.secho(found["claim"], bold=True)
    click.echo(f"{found['id']}  {found['status']}, {found['trust']}, by {found['origin']}")
    for name in ("review_wanted", "reason"):
        if found[name]:
            click.secho(f"  {found[name]}", fg="yellow")
    for line in found["evidence"] or ["nothing"]:
        click.echo(f"  shown by  {line}")
    if found["stale_evidence"]:
        click.secho("  the lines it cites have changed", fg="yellow")
    for other in found["similar"]:
        click.echo(f"  {other['how']}  {other['id']} ({other['trust']}): {other['claim']}")
