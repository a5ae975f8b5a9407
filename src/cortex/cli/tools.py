"""Commands about tools: what is registered, and calling one as an agent would."""

import json
import os
from typing import Any, cast

import click

from cortex.cli.client import Daemon
from cortex.cli.render import print_json, print_table
from cortex.home import Home


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tools(*, as_json: bool) -> int:
    """List the registered tools with their gates and limits."""
    with Daemon.reach(Home.from_environ(os.environ), "control") as daemon:
        answer = daemon.ask("tools")
    if as_json:
        print_json(answer)
        return 0
    print_table(
        ["TOOL", "GATES", "CHANGES", "LIMIT", "TIMEOUT", "CACHE"],
        [
            [
                tool["name"],
                ",".join(tool["gates"]),
                "yes" if tool["mutates"] else "no",
                f"{tool['rateLimit']['calls']}/{tool['rateLimit']['windowSeconds']:g}s",
                f"{tool['timeoutSeconds']:g}s",
                f"{tool['cacheSeconds']:g}s" if tool["cacheSeconds"] else "-",
            ]
            for tool in answer["tools"]
        ],
    )
    return 0


_WANTED = 'the arguments are a JSON object, such as \'{"include": ["version"]}\''


@click.command()
@click.argument("tool")
@click.argument("arguments", metavar="[JSON]", default="{}")
@click.option("--text", is_flag=True, help="Print the text of the result instead of JSON.")
def call(*, tool: str, arguments: str, text: bool) -> int:
    """Call TOOL with a JSON object of arguments, through the pipeline every agent goes through.

    Exits 0 when it worked, 1 when the tool answered with an error, 2 for bad usage.
    """
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{_WANTED}, and this is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise click.UsageError(_WANTED)
    with Daemon.reach(Home.from_environ(os.environ), "cli") as daemon:
        response = daemon.call(tool, cast("dict[str, Any]", parsed))
    if "error" in response:
        error = response["error"]
        if text:
            click.echo(error["message"])
        else:
            print_json({"error": error})
        return 1
    result = response["result"]
    if text:
        click.echo("\n".join(part["text"] for part in result["content"] if "text" in part))
    else:
        print_json(result)
    return 1 if result.get("isError") else 0
