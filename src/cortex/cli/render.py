"""Text for people on a terminal, JSON when asked; the only place where errors become lines."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from cortex.edge.wire import exit_code
from cortex.errors import CortexError

_MARKS = {"ok": ("green", "✓"), "warn": ("yellow", "!"), "fail": ("red", "✗")}


def print_json(value: Any) -> None:
    """Print a value as JSON, indented for a person, on one line for a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(value, indent=indent, ensure_ascii=False))


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns, the last one as long as it likes."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    click.secho(_aligned(head, widths), bold=True)
    for row in cells:
        click.echo(_aligned(row, widths))


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    return "  ".join(padded).rstrip()


def print_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair a line."""
    shown = [(name, str(value)) for name, value in pairs]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        click.echo(f"{click.style(name.ljust(width), dim=True)}  {value}")


def print_mark(level: str, text: str) -> None:
    """Print one finding of the doctor."""
    colour, mark = _MARKS[level]
    click.echo(f"{click.style(mark, fg=colour)} {text}")


def complain(error: CortexError) -> int:
    """Print an error as one line on stderr and return the exit code."""
    click.echo(f"{click.style('cortex:', fg='red')} {error}", err=True)
    return exit_code(error)
