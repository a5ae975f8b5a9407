"""Globs as this project reads them: `**` is any number of folders, hidden ones included."""

import glob
import os
import re
from collections.abc import Iterable
from functools import lru_cache

from cortex.toolsets.conversations.sources.catalog import Source

_WILD = re.compile(r"[*?\[]")
_PIECE = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|[^*?\[]+|\[")


@lru_cache(maxsize=256)
def pattern_of(text: str) -> re.Pattern[str]:
    """Return the expression that matches the same whole paths."""
    start, is_below = text.removesuffix("/**"), text.endswith("/**")
    expression = "".join(map(_expression, _PIECE.findall(start)))
    return re.compile(expression + ("(?:/.*)?" if is_below else ""), re.DOTALL)


def _expression(piece: str) -> str:
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if piece in known:
        return known[piece]
    if piece.startswith("[") and len(piece) > 2:
        inside = piece[1:-1].replace("\\", "\\\\")
        return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(piece)


def matches(path: str, globs: Iterable[str]) -> bool:
    """Tell whether a path is among those that any of the globs means."""
    return any(pattern_of(os.path.expanduser(text)).fullmatch(path) for text in globs)


def is_of(source: Source, path: str) -> bool:
    """Tell whether a file belongs to a source."""
    return matches(path, [source.glob]) and not matches(path, source.excluded)


def root_of(source: Source) -> str:
    """Return the folder below which all files of a source lie."""
    if source.watch_root:
        return os.path.expanduser(source.watch_root)
    fixed = _WILD.split(os.path.expanduser(source.glob), maxsplit=1)[0]
    return os.path.dirname(fixed) or "/"


def files_of(source: Source) -> list[str]:
    """Return the files of a source that are there now."""
    found = glob.iglob(os.path.expanduser(source.glob), recursive=True, include_hidden=True)
    return [
        path
        for path in dict.fromkeys(found)
        if not matches(path, source.excluded) and os.path.isfile(path)
    ]
