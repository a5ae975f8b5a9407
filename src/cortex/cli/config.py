"""Commands about the configuration."""

import os
from pathlib import Path

import click

from cortex.cli.daemon import config_option
from cortex.cli.render import print_json, print_table
from cortex.home import Home


@click.group()
def config() -> None:
    """Look at the configuration."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def show(*, as_json: bool, config: Path | None) -> int:
    """Show every key, its value and where it came from; secrets are masked."""
    from cortex.settings.load import load_settings  # noqa: PLC0415  # pydantic takes 200 ms
    from cortex.settings.table import describe  # noqa: PLC0415

    home = Home.from_environ(os.environ)
    loaded = load_settings(home=Path(home.root), config=config, environ=os.environ)
    rows = describe(loaded)
    if as_json:
        print_json(
            {
                "home": home.root,
                "config": str(loaded.config_path) if loaded.config_path else None,
                "settings": [
                    {"key": row.key, "value": row.value, "origin": row.origin} for row in rows
                ],
                "ignored": list(loaded.ignored),
            }
        )
        return 0
    where = loaded.config_path or f"none; {home}/cortex.toml is read when it is there"
    click.echo(f"configuration file: {where}\n")
    print_table(["KEY", "VALUE", "FROM"], [[row.key, row.value, row.origin] for row in rows])
    if loaded.ignored:
        click.echo(f"\nrecognised, without use here: {', '.join(loaded.ignored)}")
    return 0
