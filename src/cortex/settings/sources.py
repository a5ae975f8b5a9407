"""What was given, and by whom: the configuration file and the environment, not yet checked."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cortex.errors import SettingsError
from cortex.settings.keys import ALIASES, MORAINE_KEYS, MORAINE_SECTIONS, Shape, setting_keys

Location = tuple[int | str, ...]

# ingest.sources[0].glob is the deepest place that a setting can have.
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from; the name is that of the file or of the variable."""

    kind: Literal["default", "file", "env"]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


DEFAULT = Origin("default")


@dataclass(slots=True)
class Given:
    """The values of all sources, the later ones over the earlier ones."""

    environ: Mapping[str, str]
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])
    # Places that the file leaves to a variable, often to keep a secret out of it: never shown.
    hidden: set[Location] = field(default_factory=set[Location])
    ignored: list[str] = field(default_factory=list[str])

    def add_document(self, document: Mapping[str, Any], path: Path) -> None:
        """Take what a file says, and note what only Moraine has a use for."""
        origin = Origin("file", str(path))
        for section, content in document.items():
            if section in MORAINE_SECTIONS:
                self.ignored += _names(section, content)
            elif not isinstance(content, dict):
                self.values[section], self.origins[section] = content, origin
            else:
                self._add_table(section, content, origin)

    def add_environment(self) -> None:
        """Take what the variables say: text as it is, everything else as JSON."""
        shapes = {key.variable: key.shape for key in setting_keys()}
        for variable, key in ALIASES.items():
            if (value := _alias_value(variable, self.environ.get(variable))) is not None:
                section, _, name = key.partition(".")
                self._override(section, name, value, variable)
        for variable in sorted(self.environ):
            section, separator, name = variable.removeprefix("CORTEX_").lower().partition("__")
            if variable.startswith("CORTEX_") and separator:
                value = _typed(self.environ[variable], shapes.get(variable.upper()))
                self._override(section, name, value, variable)

    def origin_at(self, location: Location) -> Origin:
        """Tell who gave the value at a place, or something of the section around it."""
        section = str(location[0])
        near = [name for name in self.origins if name.startswith(f"{section}.")]
        names = (".".join(map(str, location[:2])), section, *near)
        return next((self.origins[name] for name in names if name in self.origins), DEFAULT)

    def _add_table(self, section: str, table: Mapping[str, Any], origin: Origin) -> None:
        values = self.values[section] = dict[str, Any]()
        self.origins[section] = origin
        for name, content in table.items():
            key = f"{section}.{name}"
            if key in MORAINE_KEYS:
                self.ignored.append(key)
                continue
            values[name] = self._resolve(content, (section, name), origin)
            variable = _referenced(content)
            self.origins[key] = Origin("env", variable) if variable else origin

    def _override(self, section: str, name: str, value: Any, variable: str) -> None:
        table = self.values.setdefault(section, {})
        if isinstance(table, dict):  # else the file is wrong about the section, and is told so
            table[name] = value
            self.origins[f"{section}.{name}"] = Origin("env", variable)
            self.hidden = {place for place in self.hidden if place[:2] != (section, name)}

    def _resolve(self, content: Any, place: Location, origin: Origin) -> Any:
        """Put the values of variables where the file says `{ env = "NAME" }`."""
        if variable := _referenced(content):
            if variable not in self.environ:
                raise refuse(f"{origin.name}: {dotted(place)} needs ${variable}, which is not set")
            self.hidden.add(place)
            return self.environ[variable]
        if len(place) == _MAX_DEPTH:
            return content
        if isinstance(content, list):
            return [self._resolve(item, (*place, at), origin) for at, item in enumerate(content)]
        if isinstance(content, dict):
            return {
                name: self._resolve(item, (*place, name), origin) for name, item in content.items()
            }
        return content


def read_toml(path: Path) -> dict[str, Any] | None:
    """Read a file, or find that there is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refuse(f"{path}: not readable ({error.strerror}); expected a TOML file") from error
    except UnicodeDecodeError as error:
        raise refuse(f"{path}: not UTF-8 at byte {error.start}; expected a TOML file") from error
    except RecursionError as error:
        raise refuse(f"{path}: nested too deeply; expected tables of keys and values") from error
    except ValueError as error:  # TOMLDecodeError, and numbers too long for Python
        raise refuse(f"{path}: not valid TOML: {error}") from error


def refuse(line: str) -> SettingsError:
    """Make the error of a line, with nothing in it that breaks the line or troubles a terminal."""
    return SettingsError("".join(c if c.isprintable() else repr(c)[1:-1] for c in line))


def dotted(location: Location) -> str:
    """Write a place as people do: `ingest.sources[0].glob`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def _names(section: str, content: Any) -> list[str]:
    return [f"{section}.{name}" for name in content] if isinstance(content, dict) else [section]


def _referenced(content: Any) -> str | None:
    match content:
        case {"env": str(variable)} if len(content) == 1:
            return variable
        case _:
            return None


def _alias_value(variable: str, text: str | None) -> Any:
    if variable == "CORTEX_MCP_ALLOW_MUTATIONS":
        return None if text is None else text == "true"
    return text or None  # OpenTelemetry reads an empty variable as one that is not set


def _typed(text: str, shape: Shape | None) -> Any:
    if shape is None or shape.is_text:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # of the wrong type, then, and refused as such
