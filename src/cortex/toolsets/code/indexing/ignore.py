"""Which paths are left out: .gitignore, .cortexignore, and the patterns of the project."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

_ALWAYS = (".git", ".hg", ".svn", ".cortex", ".DS_Store")
_IGNORE_FILES = (".gitignore", ".cortexignore")
_MAX_IGNORE_BYTES = 1024 * 1024
_WHOLE_FOLDER = re.compile(r"(?:\*\*/)?([^/*?\[\]]+)/\*\*/?")


class IgnoreFile:
    """The patterns of one folder; the later ones win, and `.cortexignore` comes last."""

    def __init__(self, folder: str, lines: Iterable[str]) -> None:
        self._prefix = f"{folder}/" if folder else ""
        self._spec = GitIgnoreSpec.from_lines(lines)

    def verdict(self, path: str) -> bool | None:
        """Tell whether a path is ignored, taken back, or not spoken of."""
        return self._spec.check_file(path[len(self._prefix) :]).include


class Ignore:
    """Answers for a tree, folder by folder. Paths are relative to its root; folders end in `/`."""

    def __init__(self, root: Path, configured: Sequence[str]) -> None:
        self._root = root
        patterns = [_anywhere(pattern) for pattern in configured]
        self._configured = IgnoreFile("", patterns)
        # Most patterns speak of folders, and there are many more files than folders.
        has_exceptions = any(pattern.startswith("!") for pattern in patterns)
        of_files = [p for p in patterns if has_exceptions or not p.endswith("/")]
        self._configured_files = IgnoreFile("", of_files)
        self._above = list(_files_above(root))

    def of_folder(self, folder: str, names: Iterable[str]) -> list[IgnoreFile]:
        """Return the patterns written down in a folder, if it has any."""
        present = set(names)
        lines = [
            line
            for name in _IGNORE_FILES
            if name in present
            for line in _lines(self._root / folder / name)
        ]
        if not folder:
            lines = [*_lines(self._root / ".git" / "info" / "exclude"), *lines]
        return [IgnoreFile(folder, lines)] if lines else []

    def is_ignored(self, path: str, files: Sequence[IgnoreFile]) -> bool:
        """Tell whether a path is left out; of several folders the nearest decides."""
        configured = self._configured if path.endswith("/") else self._configured_files
        if path.rstrip("/").rpartition("/")[2] in _ALWAYS or configured.verdict(path):
            return True
        for file in reversed(files):
            if (verdict := file.verdict(path)) is not None:
                return verdict
        for prefix, file in self._above:
            if (verdict := file.verdict(prefix + path)) is not None:
                return verdict
        return False


def _anywhere(pattern: str) -> str:
    """Return a configured pattern so that `node_modules/**` also means nested folders."""
    match = _WHOLE_FOLDER.fullmatch(pattern)
    return f"{match[1]}/" if match else pattern


def _files_above(root: Path) -> Iterator[tuple[str, IgnoreFile]]:
    """Yield the patterns of the folders between the root and its repository, nearest first."""
    if (root / ".git").exists():
        return
    prefix = f"{root.name}/"
    for folder in root.parents:
        lines = [line for name in _IGNORE_FILES for line in _lines(folder / name)]
        is_top = (folder / ".git").exists()
        if lines and any((up / ".git").exists() for up in (folder, *folder.parents)):
            yield prefix, IgnoreFile("", lines)
        if is_top:
            return
        prefix = f"{folder.name}/{prefix}"


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_IGNORE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
