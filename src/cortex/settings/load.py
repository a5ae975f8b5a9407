"""From a file, the environment and the defaults to `Settings`, and where each value came from.

The only door to configuration and environment: callers pass the environment in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from cortex.settings.faults import refusal
from cortex.settings.keys import setting_keys
from cortex.settings.models import Settings
from cortex.settings.sources import DEFAULT, Given, Origin, read_toml, refuse
from cortex.settings.types import UserFolder, expand_user


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings that hold, and their story; `origins` and `ignored` speak of dotted keys."""

    settings: Settings
    home: Path
    config_path: Path | None
    origins: Mapping[str, Origin]
    ignored: tuple[str, ...]


def load_settings(*, home: Path, config: Path | None, environ: Mapping[str, str]) -> LoadedSettings:
    """Read the settings of a home; whatever is wrong with them is one line of SettingsError."""
    user = UserFolder(environ.get("HOME"))
    named = _named_file(config, environ, user)
    path = named or home / "cortex.toml"
    document = read_toml(path)
    if document is None and named:
        door = "--config" if config else "$CORTEX_CONFIG"
        raise refuse(f"{path}: no such file; expected {door} to name a TOML file")
    given = Given(environ)
    given.add_document(document or {}, path)
    given.add_environment()
    _use_embedded_store(given, home)
    try:
        settings = Settings.model_validate(given.values, context=user)
    except ValidationError as error:
        raise refusal(error, given) from error
    return LoadedSettings(
        settings=settings,
        home=home,
        config_path=None if document is None else path,
        origins={str(key): given.origins.get(str(key), DEFAULT) for key in setting_keys()},
        ignored=tuple(given.ignored),
    )


def _named_file(config: Path | None, environ: Mapping[str, str], user: UserFolder) -> Path | None:
    name = str(config) if config else environ.get("CORTEX_CONFIG", "")
    try:
        return Path(expand_user(name, user)) if name else None
    except ValueError as error:
        raise refuse(f"{name}: expected {error}") from error


def _use_embedded_store(given: Given, home: Path) -> None:
    # Before validation rather than after it: Settings are frozen, and never stand there half made.
    table = given.values.setdefault("clickhouse", {})
    if isinstance(table, dict) and table.get("url", "") == "":
        table["url"] = f"chdb://{home.absolute()}/clickhouse"
