"""The page of all settings."""

from collections.abc import Iterable

from cortex.settings.keys import (
    ALIASES,
    MORAINE_KEYS,
    MORAINE_SECTIONS,
    SettingKey,
    Shape,
    shape_at,
    table_keys,
)
from cortex.settings.models import Settings
from cortex.settings.types import Unset
from pages.markdown import NOTICE, table

INTRO = """\
Cortex reads one TOML file: the one `--config` names, else the one `$CORTEX_CONFIG` names, else
`$CORTEX_HOME/cortex.toml`, which may be absent. An environment variable goes before the file, the
file before the default. In a variable, text stands as it is and everything else as JSON: `3024`,
`true`, `["~/private/**"]`.

Any text in the file may be `{ env = "NAME" }`, which takes it from that variable. A path is
absolute or starts with `~/`. An unknown key or a value that is not accepted stops Cortex with one
line that says where it is and what would be right. `cortex config show` prints every key with its
value and where that came from."""
MORAINE_INTRO = """\
A Moraine configuration file works as it is. What it says under these names has no meaning here; it
is ignored, and `cortex config show` lists it."""


def settings_page() -> str:
    """Every key of the configuration."""
    parts = ["# Settings", NOTICE, INTRO]
    for section, field in Settings.model_fields.items():
        keys = list(table_keys(section, Shape.of(field.annotation)))
        parts += [f"## [{section}]", field.description or "", _settings_table(keys)]
        parts += [text for key in keys if key.shape.is_list for text in _list_of_tables(key)]
    names = [f"`[{section}]`" for section in MORAINE_SECTIONS] + [f"`{k}`" for k in MORAINE_KEYS]
    parts += ["## Accepted and ignored", MORAINE_INTRO, "\n".join(f"- {name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def _settings_table(keys: Iterable[SettingKey]) -> str:
    others = {key: variable for variable, key in ALIASES.items()}
    rows = [
        (
            f"`{key.name}`",
            key.shape.words,
            _default(key),
            " or ".join(f"`{name}`" for name in (key.variable, others.get(str(key))) if name),
            key.description,
        )
        for key in keys
    ]
    return table(("key", "accepts", "default", "environment variable", "what it does"), rows)


def _default(key: SettingKey) -> str:
    is_sentence = key.shape.mark(Unset) is not None and "$" not in key.default
    return key.default if is_sentence else f"`{key.default}`" if key.default else "empty"


def _list_of_tables(key: SettingKey) -> Iterable[str]:
    item = shape_at((key.section, key.name, 0))
    if not item.is_table:
        return
    rows = [
        (
            f"`{part.name}`",
            part.shape.words,
            _default(part) if part.default else "required",
            part.description,
        )
        for part in table_keys(str(key), item)
    ]
    yield f"### [[{key}]]"
    yield table(("key", "accepts", "default", "what it does"), rows)
