"""The files of projects as evidence cites them: read from the disk, within bounds."""

from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

MAX_BYTES = 2 * 1024 * 1024


class ProjectFiles:
    """Reads text files below a project's folder, and no others."""

    async def lines(self, project: str, path: str) -> Sequence[str] | None:
        """Return the lines of a file, or None if it is not there, too large, or not text."""
        return await anyio.to_thread.run_sync(_lines, project, path)


def _lines(project: str, path: str) -> list[str] | None:
    if not project:
        return None
    root = Path(project).resolve()
    target = (root / path).resolve()
    if not target.is_relative_to(root):
        return None
    try:
        if not target.is_file() or target.stat().st_size > MAX_BYTES:
            return None
        return target.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def project_of(folder: str | None) -> str:
    """Return the project a session runs in: the repository around its folder, or the folder."""
    if not folder:
        return ""
    here = Path(folder)
    for place in (here, *here.parents):
        if (place / ".git").exists():
            return str(place)
    return str(here)
