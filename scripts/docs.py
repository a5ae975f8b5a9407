"""Write the pages of docs/reference that are made from the code, or check that they are fresh.

A page is one line of PAGES: where it lies, and the function that returns its text.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

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

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "<!-- Made by scripts/docs.py from the code: change the code, then run it again. -->"
SETTINGS_INTRO = """\
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
    parts = ["# Settings", NOTICE, SETTINGS_INTRO]
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
    return _table(("key", "accepts", "default", "environment variable", "what it does"), rows)


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
    yield _table(("key", "accepts", "default", "what it does"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PAGES: tuple[tuple[str, Callable[[], str]], ...] = (("docs/reference/settings.md", settings_page),)


def main(arguments: list[str]) -> int:
    """Write what is stale; with `--check`, only name it and fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if stale")
    check: bool = parser.parse_args(arguments).check
    texts = {name: page() for name, page in PAGES}
    stale = [name for name, text in texts.items() if _read(ROOT / name) != text]
    for name in stale:
        print(f"{name}: {'stale, run scripts/docs.py' if check else 'written'}")
        if not check:
            (ROOT / name).write_text(texts[name], encoding="utf-8")
    return 1 if check and stale else 0


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
