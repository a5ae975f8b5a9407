import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.errors import SettingsError
from cortex.settings.keys import MORAINE_KEYS, MORAINE_SECTIONS, setting_keys
from cortex.settings.load import load_settings
from cortex.settings.table import describe

# Examples are many and machines are busy: the time of one says nothing.
UNHURRIED = settings(deadline=None)

KEYS = [(key.section, key.name) for key in setting_keys()]
SECTIONS = st.sampled_from([section for section, _ in KEYS] + list(MORAINE_SECTIONS)) | st.text()
NAMES = st.sampled_from([name for _, name in KEYS] + [k.split(".")[1] for k in MORAINE_KEYS])

# json.dumps writes these as TOML too, but for DEL and for characters outside the first plane.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF, exclude_characters="\x7f")
)
SCALARS = (
    TEXTS
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["~/x", "/x", "0.0.0.0", "http://u:p@h", "chdb:///x", "[[", "auto"])
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3)


def toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)


def table(pairs: dict[str, object]) -> str:
    return "{" + ", ".join(f"{toml(name)} = {toml(value)}" for name, value in pairs.items()) + "}"


def outcome(text: str, environ: dict[str, str]) -> str:
    """Load and describe; only SettingsError is caught, so that nothing else can come out of it."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "cortex.toml").write_text(text, encoding="utf-8")
        try:
            describe(load_settings(home=Path(home), config=None, environ=environ))
        except SettingsError as error:
            return str(error)
    return "loaded"


@UNHURRIED
@given(st.dictionaries(SECTIONS, st.dictionaries(NAMES | TEXTS, VALUES, max_size=3), max_size=3))
def test_any_values_for_any_keys_load_or_are_refused_in_one_line(
    document: dict[str, dict[str, object]],
) -> None:
    assert outcome(
        "\n".join(f"{toml(name)} = {table(pairs)}" for name, pairs in document.items()), {}
    ).isprintable()


@UNHURRIED
@given(st.sampled_from(KEYS), VALUES)
def test_any_value_for_a_known_key_loads_or_is_refused_in_one_line(
    key: tuple[str, str], value: object
) -> None:
    assert outcome(f"[{key[0]}]\n{key[1]} = {toml(value)}\n", {"HOME": "/home/ann"}).isprintable()


@UNHURRIED
@given(st.dictionaries(NAMES, VALUES, max_size=6), st.dictionaries(NAMES, VALUES, max_size=6))
def test_any_sources_load_or_are_refused_in_one_line(
    one: dict[str, object], other: dict[str, object]
) -> None:
    good: dict[str, object] = {"name": "x", "harness": "codex", "glob": "/x/*.jsonl"}
    assert outcome(f"[ingest]\nsources = [{table(good | one)}, {table(other)}]\n", {}).isprintable()


@UNHURRIED
@given(st.text())
def test_any_text_as_a_file_loads_or_is_refused_in_one_line(text: str) -> None:
    assert outcome(text.encode("utf-8", "replace").decode(), {}).isprintable()


@UNHURRIED
@given(st.dictionaries(st.sampled_from([key.variable for key in setting_keys()]), st.text()))
def test_any_text_in_any_variable_loads_or_is_refused_in_one_line(environ: dict[str, str]) -> None:
    assert outcome("", environ).isprintable()
