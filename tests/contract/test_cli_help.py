"""What `--help` says is part of what people rely on: a change of it is a change to agree on."""

import importlib
import os
import pkgutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import cortex.cli
from cortex.cli.main import COMMANDS
from cortex.cli.main import cortex as program

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cli_help.txt"


def command_paths(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += command_paths(inner, (*path, name))
    return found


PATHS = command_paths(program)


def help_of(path: tuple[str, ...], option: str = "--help") -> str:
    done = CliRunner().invoke(program, [*path, option], prog_name="cortex", terminal_width=80)
    assert done.exit_code == 0, done.output
    return done.output


def test_help_is_as_agreed() -> None:
    """`UPDATE_GOLDEN=1 pytest tests/contract/test_cli_help.py` writes it anew."""
    text = "\n".join(
        f"$ {' '.join(['cortex', *path, '--help'])}\n{help_of(path)}" for path in PATHS
    )
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_and_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    assert help_of(path, "-h") == help_of(path)
    command: click.Command = program
    for name in path:
        assert isinstance(command, click.Group)
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        command = inner
    assert command.help
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert all(option.help for option in options)


def _commands_of_groups() -> list[click.Command]:
    """Return the commands inside groups: their names may be those of others."""
    groups = [
        value
        for module in pkgutil.iter_modules(cortex.cli.__path__)
        for value in vars(importlib.import_module(f"cortex.cli.{module.name}")).values()
        if isinstance(value, click.Group) and value is not program
    ]
    return [command for group in groups for command in group.commands.values()]


def test_table_of_commands_agrees_with_the_commands() -> None:
    written: dict[str, tuple[str, click.Command]] = {}
    inner = _commands_of_groups()
    for module in pkgutil.iter_modules(cortex.cli.__path__):
        for value in vars(importlib.import_module(f"cortex.cli.{module.name}")).values():
            is_own = isinstance(value, click.Command) and value not in (program, *inner)
            if is_own and value.callback and value.callback.__module__.endswith(module.name):
                written[str(value.name)] = (module.name, value)
    assert set(written) == set(COMMANDS)
    for name, (module, summary) in COMMANDS.items():
        home, command = written[name]
        assert home == module
        assert command.help
        assert command.help.split()[0] == summary.split()[0]
