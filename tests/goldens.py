"""What is public and agreed, as text: compared by tests/contract, rewritten by scripts/golden."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types

from cortex.edge.mcp_server import _published
from cortex.edge.wire import exit_code, jsonrpc_code
from cortex.errors import CortexError
from cortex.settings.keys import setting_keys
from fakes import FakeClock, every_tool

FOLDER = Path(__file__).parent / "golden"


def published_tools() -> list[types.Tool]:
    """Return every tool as `tools/list` publishes it."""
    return [_published(spec) for spec in every_tool(FakeClock())]


def tools() -> str:
    """Name, description, schemas and annotations of every tool."""
    listed: list[dict[str, Any]] = [
        tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in published_tools()
    ]
    return json.dumps(listed, indent=2, ensure_ascii=False) + "\n"


def error_classes(root: type[CortexError] = CortexError) -> Iterator[type[CortexError]]:
    """Yield every error of ours, the root first."""
    yield root
    for leaf in root.__subclasses__():
        if leaf.__module__ == root.__module__:  # those beside them are private to their module
            yield from error_classes(leaf)


def error_codes() -> str:
    """Every error with its code, whether trying again helps, and what it becomes on each wire."""
    lines = [
        "class | code | retryable | failure=result | failure=protocol | exit",
        *sorted({_error_line(error) for error in error_classes()}),
    ]
    return "\n".join(lines) + "\n"


def _error_line(error: type[CortexError]) -> str:
    example = error.__new__(error)
    wires = (jsonrpc_code(example, "result"), jsonrpc_code(example, "protocol"))
    becomes = [str(code) if code is not None else "isError" for code in wires]
    parts = [error.__name__, error.code, "yes" if error.retryable else "no", *becomes]
    return " | ".join([*parts, str(exit_code(example))])


def settings_keys() -> str:
    """Every key of the configuration with type and default."""
    lines = [f"{key} | {key.shape.words} | {key.default}".rstrip() for key in setting_keys()]
    return "\n".join(lines) + "\n"


GOLDEN = {
    "tools.json": tools,
    "error_codes.txt": error_codes,
    "settings_keys.txt": settings_keys,
}


def stale() -> list[str]:
    """Return the files that do not say what the code says."""
    return [name for name, text in GOLDEN.items() if _read(FOLDER / name) != text()]


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def main(arguments: list[str]) -> int:
    """Compare the files, or with `--update` write them."""
    if arguments not in ([], ["--update"]):
        sys.stderr.write("usage: scripts/golden [--update]\n")
        return 2
    names = stale()
    for name in names:
        if arguments:
            (FOLDER / name).write_text(GOLDEN[name](), "utf-8")
        state = "written" if arguments else "is stale: scripts/golden --update"
        sys.stdout.write(f"{name} {state}\n")
    return 1 if names and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
