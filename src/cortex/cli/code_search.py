"""The command `cortex code`: what an agent finds in a project, shown to a person."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from cortex.cli.client import Daemon, RemoteError
from cortex.cli.render import print_json
from cortex.home import Home

_SNIPPET_LINES = 12
_TYPES = ("symbols", "definitions", "data", "documentation")


@click.command()
@click.argument("query")
@click.option("--type", "types", multiple=True, type=click.Choice(_TYPES), help="Only this type.")
@click.option("--tag", "tags", multiple=True, help="Only chunks with this tag, such as python.")
@click.option("--path", default="", help="Only files that match, as 'src/**/*.py'.")
@click.option(
    "--limit",
    default=5,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Most results to show.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def code(
    *,
    query: str,
    types: tuple[str, ...],
    tags: tuple[str, ...],
    path: str,
    limit: int,
    as_json: bool,
) -> int:
    """Search the code and documents of the project this folder belongs to.

    `cortex index` makes it searchable first.
    """
    answer = _found(
        {
            "query": query,
            "limit": limit,
            "chunk_types": types,
            "tags": tags,
            "path": path,
            "include_stats": True,
        }
    )
    if as_json:
        print_json(answer)
    else:
        for number, result in enumerate(answer["results"], 1):
            _print(number, result)
        _print_end(answer)
    return 0


def _found(arguments: Mapping[str, Any]) -> dict[str, Any]:
    with Daemon.reach(Home.from_environ(os.environ), "cli") as daemon:
        response = daemon.call("cortex_search", arguments)
    if "error" in response:
        raise RemoteError(response["error"]["data"]["error"])
    return response["result"]["structuredContent"]


def _print(number: int, result: Mapping[str, Any]) -> None:
    chunk = result["chunk"]
    about = chunk["metadata"]
    lines = f":{about['start_line']}-{about['end_line']}" if about.get("end_line") else ""
    place = f"{about.get('file_path', chunk['title'])}{lines}"
    click.secho(f"{number:>2}. {place}", bold=True, nl=False)
    click.secho(f"  {chunk['chunk_type']}  {result['combined_score']:.2f}", dim=True)
    snippet = _snippet(chunk["text"])
    if sys.stdout.isatty():
        _print_highlighted(snippet, str(about.get("language", "text")))
    else:
        click.echo("\n".join(f"    {line}".rstrip() for line in snippet.splitlines()))
    click.echo()


def _snippet(text: str) -> str:
    lines = text.strip("\n").expandtabs(4).splitlines()
    more = len(lines) - _SNIPPET_LINES
    return "\n".join([*lines[:_SNIPPET_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def _print_highlighted(snippet: str, language: str) -> None:
    from rich.console import Console  # noqa: PLC0415  # 60 ms, only for a terminal
    from rich.padding import Padding  # noqa: PLC0415
    from rich.syntax import Syntax  # noqa: PLC0415

    shown = Syntax(snippet, language, theme="ansi_dark", background_color="default")
    Console(highlight=False).print(Padding(shown, (0, 0, 0, 4)))


def _print_end(answer: Mapping[str, Any]) -> None:
    stats = answer["stats"]
    done = f"{answer['total']} results of {stats['chunks']:,} chunks in {stats['took_ms']:.0f} ms"
    by_words = f", by words alone: {stats['words_only']}" if stats["words_only"] else ""
    click.secho(done + by_words, dim=True)
