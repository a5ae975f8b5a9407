import subprocess
import sys
from pathlib import Path

from cortex.settings.keys import setting_keys

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "settings_keys.txt"


def test_the_keys_types_and_defaults_are_those_that_were_agreed() -> None:
    """A change here changes what people may write in their files: say so in CHANGELOG.md."""
    lines = [f"{key} | {key.shape.words} | {key.default}".rstrip() for key in setting_keys()]
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_every_key_has_a_variable_of_its_own() -> None:
    variables = [key.variable for key in setting_keys()]
    assert len(set(variables)) == len(variables)
    assert all(variable.isupper() and "__" in variable for variable in variables)


def test_the_page_of_the_settings_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "docs.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
