"""Write the pages of docs/reference that are made from the code, or check that they are fresh.

A page is one line of PAGES: where it lies, and the function that returns its text.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pages.cli import cli_page
from pages.errors import errors_page
from pages.settings import settings_page
from pages.tools import tools_page

ROOT = Path(__file__).resolve().parent.parent
PAGES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("docs/reference/cli.md", cli_page),
    ("docs/reference/errors.md", errors_page),
    ("docs/reference/settings.md", settings_page),
    ("docs/reference/tools.md", tools_page),
)


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
