"""Commands about memory: note, find, review, approve, forget, prove, move."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cortex.cli.client import Daemon, RemoteError
from cortex.cli.memory_review import review_all
from cortex.cli.render import print_fields, print_json, print_table
from cortex.errors import GateClosed
from cortex.home import Home

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_TRUSTS = click.Choice(["agent", "reviewed"])
_STATUSES = click.Choice(
    ["candidate", "pending", "active", "superseded", "quarantined", "rejected", "retired"]
)


@click.group()
def memory() -> None:
    """Note, search, review and prove what agents learn, with the evidence for it."""


@memory.command()
@click.argument("claim")
@click.option("--tag", "tags", multiple=True, help="A domain; may be given more than once.")
@click.option("--evidence", multiple=True, help="event:UID, file:PATH#L3-L9, commit:SHA, or words.")
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1),
    default=0.9,
    show_default=True,
    help="How sure it is.",
)
@click.option("--global", "is_global", is_flag=True, help="It holds in every project.")
@_AS_JSON
def note(
    *,
    claim: str,
    tags: tuple[str, ...],
    evidence: tuple[str, ...],
    confidence: float,
    is_global: bool,
    as_json: bool,
) -> int:
    """Keep CLAIM. Typed at a terminal it counts as reviewed, else as an agent's note."""
    order = {
        "claim": claim,
        "tags": list(tags),
        "evidence": list(evidence),
        "confidence": confidence,
        "scope": "global" if is_global else "project",
        "cwd": str(Path.cwd()),
        "is_person": is_person(),
    }
    answer = _ask("memory.note", order)
    if as_json:
        print_json(answer)
        return 0
    state = "kept" if answer["is_new"] else "known already, now stronger"
    click.echo(f"{answer['id']}  {answer['status']}, {answer['trust']}: {state}")
    if answer["reason"]:
        click.secho(f"  {answer['reason']}", fg="yellow")
    for name in ("near", "contradictions"):
        for other, text in answer[name].items():
            click.echo(f"  {name}: {other}  {text}")
    return 0


@memory.command()
@click.argument("query")
@click.option("--tag", "tags", multiple=True, help="Only memories with all of these.")
@click.option("--limit", default=10, show_default=True, help="Most hits to show.")
@click.option("--trust", type=_TRUSTS, help="Only these.")
@click.option(
    "--scope",
    type=click.Choice(["project", "global", "all"]),
    default="all",
    show_default=True,
    help="Where they hold; project: here and everywhere.",
)
@_AS_JSON
def search(
    *,
    query: str,
    tags: tuple[str, ...],
    limit: int,
    trust: str | None,
    scope: str,
    as_json: bool,
) -> int:
    """Find active memories by words and meaning."""
    arguments = {"query": query, "tags": list(tags), "limit": limit, "trust": trust, "scope": scope}
    answer = _call("cortex_memory_search", arguments)
    if as_json:
        print_json(answer)
        return 0
    for hit in answer["hits"]:
        stale = click.style("  stale evidence", fg="yellow") if hit["stale_evidence"] else ""
        click.secho(f"{hit['score']:.3f}  {hit['id']}  {hit['trust']}", bold=True, nl=False)
        click.echo(stale)
        click.echo(f"       {hit['claim']}")
        parts = "  ".join(f"{name} {value:.2f}" for name, value in hit["parts"].items())
        click.secho(f"       {parts}", dim=True)
    click.secho(f"{len(answer['hits'])} hits", dim=True)
    return 0


@memory.command()
@click.argument("memory_id", metavar="ID")
@_AS_JSON
def show(*, memory_id: str, as_json: bool) -> int:
    """Show one memory with its evidence and everything that happened to it."""
    answer = _call("cortex_memory_get", {"id": memory_id})
    if as_json:
        print_json(answer)
        return 0
    click.secho(answer["claim"], bold=True)
    names = ("id", "status", "trust", "project", "confidence", "salience", "reason", "origin")
    print_fields((name, answer[name]) for name in names if answer[name] != "")
    for name in ("tags", "evidence", "outcomes", "history"):
        for value in answer[name]:
            click.echo(f"{click.style(name, dim=True)}  {value}")
    for name, ids in answer["links"].items():
        click.echo(f"{click.style(name, dim=True)}  {' '.join(ids)}")
    if answer["stale_evidence"]:
        click.secho("the lines it cites have changed", fg="yellow")
    return 0


@memory.command("list")
@click.option("--tag", "tags", multiple=True, help="Only memories with all of these.")
@click.option("--status", type=_STATUSES, help="Only these.")
@click.option("--trust", type=_TRUSTS, help="Only these.")
@click.option("--project", help="Only this project; an empty text for those of none.")
@click.option("--limit", default=20, show_default=True, help="Most memories to show.")
@click.option("--offset", default=0, show_default=True, help="How many to skip.")
@_AS_JSON
def list_(*, as_json: bool, tags: tuple[str, ...], **wanted: Any) -> int:
    """List memories of any status, the last changed first."""
    given = {name: value for name, value in wanted.items() if value is not None}
    answer = _call("cortex_memory_list", {"tags": list(tags), **given})
    if as_json:
        print_json(answer)
        return 0
    print_table(
        ["ID", "STATUS", "TRUST", "CLAIM"],
        [
            [found["id"], found["status"], found["trust"], found["claim"].splitlines()[0][:100]]
            for found in answer["memories"]
        ],
    )
    click.secho(f"{len(answer['memories'])} of {answer['total']}", dim=True)
    return 0


@memory.command()
@click.option("--limit", default=20, show_default=True, help="Most memories to go through.")
@click.option("--json", "as_json", is_flag=True, help="Print what waits, and ask nothing.")
def review(*, limit: int, as_json: bool) -> int:
    """Go through what waits for a person: accept, edit, reject or retire each."""
    with _daemon("control") as daemon:
        answer = daemon.ask("memory.queue", {"limit": limit})
        if as_json:
            print_json(answer)
            return 0
        _need_person("cortex memory review")
        return review_all(daemon, answer)


@memory.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reject", is_flag=True, help="A code to reject them, not to accept them.")
def approve(*, ids: tuple[str, ...], reject: bool) -> int:
    """Print a code for an agent: it accepts exactly these memories, once, within ten minutes."""
    _need_person("cortex memory approve")
    order = {"ids": list(ids), "action": "reject" if reject else "accept", "is_person": True}
    answer = _ask("memory.approve", order)
    for found in answer["memories"]:
        click.echo(f"{found['id']}  {found['status']}, {found['trust']}: {found['claim']}")
    minutes = round(answer["valid_s"] / 60)
    click.echo(f"to {answer['action']} exactly these, once, within {minutes} minutes:")
    click.secho(answer["code"], bold=True)
    return 0


@memory.command()
@click.argument("memory_id", metavar="ID")
@click.argument("result", type=click.Choice(["helpful", "not-helpful"]))
def outcome(*, memory_id: str, result: str) -> int:
    """Say whether a memory helped."""
    answer = _ask("memory.outcome", {"id": memory_id, "result": result})
    click.echo(f"{answer['id']}: helpful {answer['helpful']}, not {answer['not_helpful']}")
    return 0


@memory.command()
@click.argument("memory_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(*, memory_id: str, yes: bool) -> int:
    """Delete the words of a memory for good; the ledger keeps that there was one."""
    if not yes:
        shown = _call("cortex_memory_get", {"id": memory_id})
        click.echo(shown["claim"])
        click.confirm("Forget it for good?", abort=True)
    answer = _ask("memory.forget", {"id": memory_id})
    click.echo(f"{answer['id']} is forgotten; record {answer['record']} says so")
    return 0


@memory.command()
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would.")
@_AS_JSON
def decay(*, dry_run: bool, as_json: bool) -> int:
    """Put faded memories up for review and quarantine agents' notes that helped nobody."""
    answer = _ask("memory.decay", {"dry_run": dry_run})
    if as_json:
        print_json(answer)
        return 0
    for name in ("quarantined", "review_wanted"):
        for found in answer[name]:
            click.echo(f"{name}  {found}")
    would = "would change" if dry_run else "changed"
    count = len(answer["quarantined"]) + len(answer["review_wanted"])
    click.echo(f"{answer['seen']} seen, {count} {would}")
    return 0


@memory.command()
@click.option("--rebuild", is_flag=True, help="First make the rows again from the ledger.")
@_AS_JSON
def verify(*, rebuild: bool, as_json: bool) -> int:
    """Prove that the ledger is unbroken and every memory is what it says; exits 1 if not."""
    answer = _ask("memory.verify", {"rebuild": rebuild})
    if as_json:
        print_json(answer)
    else:
        for difference in answer["differences"]:
            click.secho(difference, fg="red")
        state = "sound" if answer["ok"] else "NOT as it was written"
        click.echo(f"{answer['records']} records, {answer['memories']} memories: {state}")
        click.secho(f"head {answer['head']}", dim=True)
    return 0 if answer["ok"] else 1


@memory.command()
@click.argument("path", type=click.Path(path_type=Path))
def export(*, path: Path) -> int:
    """Write every memory with its history to a new file of JSON lines."""
    answer = _ask("memory.export", {"path": str(path.resolve())})
    click.echo(f"{answer['records']} records in {path}")
    return 0


@memory.command("import")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_(*, path: Path) -> int:
    """Read a file that `export` wrote; it is verified before anything is kept."""
    answer = _ask("memory.import", {"path": str(path.resolve())})
    click.echo(f"{answer['memories']} memories kept, {answer['known']} known already")
    return 0


def is_person() -> bool:
    """Tell whether somebody sits at a terminal here; an agent's shell is none."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _need_person(command: str) -> None:
    if not is_person():
        raise GateClosed(
            command, "memory.commit", reason="there is no terminal", hint="a person must run it"
        )


def _daemon(role: str) -> Daemon:
    return Daemon.reach(Home.from_environ(os.environ), role)


def _ask(op: str, order: Mapping[str, Any]) -> dict[str, Any]:
    with _daemon("control") as daemon:
        return daemon.ask(op, order)


def _call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    with _daemon("cli") as daemon:
        response = daemon.call(tool, arguments)
    if "error" in response:
        raise RemoteError(response["error"]["data"]["error"])
    result = response["result"]
    if result.get("isError"):
        raise RemoteError(result["structuredContent"]["error"])
    return result["structuredContent"]
