"""Files that somebody asks to be read: which they are, and which agent wrote them."""

import fnmatch
import os
from collections.abc import Iterator, Sequence

from cortex.errors import InvalidParams
from cortex.toolsets.conversations.ingest.globs import is_of, matches
from cortex.toolsets.conversations.ingest.ingestor import Task
from cortex.toolsets.conversations.sources import catalog
from cortex.toolsets.conversations.sources.catalog import Source


def requested(paths: Sequence[str], harness: str | None, known: Sequence[Source]) -> list[Task]:
    """Return the session files at or below these paths.

    A file that belongs to a known source is read as that, so that it is not read twice. Without
    a harness the agent is told by the source to which the path belongs, wherever it was copied.

    Raises:
        InvalidParams: a path is not there, or nothing tells which agent wrote it.
    """
    if harness is not None and harness not in catalog.HARNESSES:
        raise InvalidParams(
            f"unknown harness {harness!r}; known are {', '.join(catalog.HARNESSES)}"
        )
    tasks: dict[str, Task] = {}
    for path in map(_absolute, paths):
        if not os.path.exists(path):
            raise InvalidParams(f"{path} is not there")
        found = [Task(s, file) for file in _below(path) if (s := _source(file, harness, known))]
        if not found and os.path.isfile(path) and harness is not None:
            found = [Task(catalog.source(harness, harness, path), path)]
        if not found:
            names = ", ".join(catalog.HARNESSES)
            raise InvalidParams(f"no session files in {path}; name the agent by harness: {names}")
        tasks |= {task.path: task for task in found}
    return list(tasks.values())


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _below(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
    for folder, folders, files in os.walk(path):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(files))


def _source(path: str, harness: str | None, known: Sequence[Source]) -> Source | None:
    for source in known:
        if harness in (None, source.harness) and is_of(source, path):
            return source
    if harness is not None:
        source = catalog.source(harness, harness, path)
        name = os.path.basename(path)
        is_session = any(fnmatch.fnmatchcase(name, p) for p in catalog.file_patterns(harness))
        return source if is_session and not matches(path, source.excluded) else None
    for source in catalog.sources(None):
        # The same folders below another one: a backup, or the home of somebody else.
        if matches(path, ["**/" + source.glob.removeprefix("~/")]):
            return None if matches(path, source.excluded) else source
    return None
