"""The page of all commands: what `--help` prints."""

from collections.abc import Iterator

import click

from cortex.cli.main import cortex
from pages.markdown import NOTICE

INTRO = """\
`./cortex` runs from a checkout; `cortex`, and `cortexctl` as another name of it, are installed with
the package. Every command prints text for people, and JSON with `--json` where it has that option.
Exit codes: 0 it worked, 1 it did not, 2 it was asked wrongly (a bad argument or configuration)."""


def cli_page() -> str:
    """Every command with its help."""
    parts = ["# Commands", NOTICE, INTRO]
    root = click.Context(
        cortex, info_name="cortex", terminal_width=90, help_option_names=["-h", "--help"]
    )
    for context in _contexts(root):
        parts += [f"## {context.command_path}", f"```text\n{context.get_help()}\n```"]
    return "\n\n".join(parts) + "\n"


def _contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _contexts(
                click.Context(child, parent=context, info_name=name, terminal_width=90)
            )
