"""The command line. A command's module is loaded when it runs: `cortex --help` stays quick."""

import difflib
import importlib
from collections.abc import Sequence

import click

from cortex.errors import CortexError
from cortex.version import __version__

# Where each command lives, and the line that tells of it.
COMMANDS = {
    "up": ("daemon", "Start the daemon, if it does not run yet."),
    "down": ("daemon", "Stop the daemon."),
    "status": ("daemon", "Show what the daemon does."),
    "logs": ("daemon", "Print a log, and follow it."),
    "ingest": ("conversations", "Read session files once, with a progress bar."),
    "search": ("conversations", "Search past sessions of any agent."),
    "open": ("conversations", "Show one event and what stands around it."),
    "sessions": ("sessions", "List past sessions, newest first."),
    "forget": ("forget", "Remove past sessions for good."),
    "index": ("code", "Cut a project into chunks that agents can search."),
    "code": ("code_search", "Search the code and documents of a project."),
    "memory": ("memory", "Note, search, review and prove memories."),
    "doctor": ("doctor", "Explain what is wrong here, and how to mend it."),
    "mcp": ("daemon", "Speak MCP on stdin and stdout: the command for an agent."),
    "run": ("daemon", "Run one part in the foreground."),
    "tools": ("tools", "List the tools with their gates and limits."),
    "call": ("tools", "Call a tool as an agent would."),
    "config": ("config", "Look at the configuration."),
}


class Commands(click.Group):
    """A group that knows its commands by name and loads only the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"cortex.cli.{COMMANDS[cmd_name][0]}")
        # `open` would hide the built-in in its module.
        return getattr(module, f"{cmd_name}_" if cmd_name == "open" else cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(
                f"No such command {args[0]!r}." + (f" Did you mean {near[0]}?" if near else "")
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cortex")
def cortex() -> None:
    """Give the coding agents on this machine a past, their code, a memory and safe operations.

    Connect an agent with the stdio command `cortex mcp`; the daemon starts by itself.
    """


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = cortex.main(list(arguments), prog_name="cortex", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except CortexError as error:
        from cortex.cli.render import complain  # noqa: PLC0415

        return complain(error)
    return code if isinstance(code, int) else 0
