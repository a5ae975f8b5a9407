"""Commands about conversations: read session files, search them, open one event."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cortex.cli.client import Daemon, RemoteError
from cortex.cli.render import print_json
from cortex.home import Home


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--harness", help="The agent that wrote them, such as claude-code or codex.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ingest(*, paths: tuple[Path, ...], harness: str | None, as_json: bool) -> int:
    """Read session files once: those of every agent here, or the ones below PATHS."""
    arguments = {"paths": [str(path.resolve()) for path in paths] or None, "harness": harness}
    with Daemon.reach(Home.from_environ(os.environ), "control") as daemon:
        if as_json or not sys.stderr.isatty():
            answer = daemon.ask("ingest", arguments)
        else:
            answer = _with_progress_bar(daemon, arguments)
    if as_json:
        print_json(answer)
    else:
        click.echo(
            f"{answer['events']} events from {answer['files']} files"
            f" ({answer['bytes'] / 1e6:.1f} MB), {answer['errors']} records could not be read"
        )
    return 0


def _with_progress_bar(daemon: Daemon, arguments: Mapping[str, Any]) -> dict[str, Any]:
    from rich.progress import (  # noqa: PLC0415  # 60 ms, only for a terminal
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.fields[files]} files"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[rate]:.0f} events/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("", total=None, files="0/0", rate=0.0)

        def tell(progress: Mapping[str, Any]) -> None:
            elapsed_s = bar.tasks[0].elapsed or 1.0
            bar.update(
                task,
                total=progress["bytes"],
                completed=progress["bytes_done"],
                files=f"{progress['files_done']}/{progress['files']}",
                rate=progress["events"] / elapsed_s,
            )

        return daemon.ask("ingest", arguments, tell)


@click.command()
@click.argument("query")
@click.option("--limit", default=10, show_default=True, help="Most hits to show.")
@click.option("--harness", help="Only this agent: claude-code, codex, …")
@click.option("--project", help="Only sessions below this folder.")
@click.option("--since", help="Not before this moment, such as 2026-01-31.")
@click.option("--tools", is_flag=True, help="Also what tools were given and returned.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def search(
    *,
    query: str,
    limit: int,
    harness: str | None,
    project: str | None,
    since: str | None,
    tools: bool,
    as_json: bool,
) -> int:
    """Search what was said and done in past sessions of any agent."""
    given = {"harness": harness, "project": project, "since": since}
    answer = _call(
        "search",
        {
            "query": query,
            "limit": limit,
            "include_tool_events": tools,
            **{key: value for key, value in given.items() if value},
        },
    )
    if as_json:
        print_json(answer)
        return 0
    for hit in answer["hits"]:
        title = hit["session_title"] or hit["session_id"]
        click.secho(f"{hit['rank']:>2}. {title}", bold=True)
        about = f"{hit['event_time'][:16]}  {hit['harness']}  {hit['actor_role']}  {hit['project']}"
        click.secho(f"    {about}", dim=True)
        click.echo(f"    {hit['text_preview']}")
        click.secho(f"    cortex open {hit['event_uid']}", fg="cyan")
    stats = answer["stats"]
    click.secho(f"{stats['result_count']} hits in {stats['took_ms']:.0f} ms", dim=True)
    return 0


@click.command("open")
@click.argument("uid")
@click.option("--before", default=3, show_default=True, help="Events before it.")
@click.option("--after", default=3, show_default=True, help="Events after it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def open_(*, uid: str, before: int, after: int, as_json: bool) -> int:
    """Show one event and what stands around it; exits 1 if there is no such event."""
    answer = _call("open", {"event_uid": uid, "before": before, "after": after})
    if as_json:
        print_json(answer)
    elif not answer["found"]:
        click.echo(f"no event {uid}")
    else:
        for event in answer["events"]:
            head = f"[{event['event_order']}] {event['actor_role']} {event['event_class']}"
            tool = f" {event['name']}" if event["name"] else ""
            when = f"  {event['event_time'][:19]}"
            click.secho(head + tool + when, bold=event["is_target"], dim=not event["is_target"])
            if event["text_content"]:
                click.echo(event["text_content"][:2000])
            click.echo()
    return 0 if answer["found"] else 1


def _call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    with Daemon.reach(Home.from_environ(os.environ), "cli") as daemon:
        response = daemon.call(tool, {**arguments, "verbosity": "full"})
    if "error" in response:
        raise RemoteError(response["error"]["data"]["error"])
    result = response["result"]
    if result.get("isError"):
        raise RemoteError(result["structuredContent"]["error"])
    return result["structuredContent"]
