"""Finds the files of a project that are worth reading, and counts those that are not."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from cortex.toolsets.code.indexing.catalog import TEXT, language_named, may_be_script
from cortex.toolsets.code.indexing.ignore import Ignore, IgnoreFile
from cortex.toolsets.code.indexing.languages import Language
from cortex.toolsets.code.indexing.project import ProjectSettings

_GENERATED_NAME = re.compile(
    r".*(?:\.min\.(?:js|css|mjs)|\.map|\.lock|-lock\.(?:json|yaml)|\.snap|\.pb\.go|_pb2(?:_grpc)?\.pyi?"
    r"|\.g\.dart|\.designer\.cs|\.generated\.\w+)|go\.sum|npm-shrinkwrap\.json",
    re.IGNORECASE,
)
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file system says about a file; another stamp means: look at the content."""

    mtime_ns: int
    ctime_ns: int
    size_bytes: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "Stamp":
        """Return the stamp of a file."""
        return cls(stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)


NO_STAMP = Stamp(0, 0, 0)
"""Of a file that is to be looked at again."""


@dataclass(slots=True)
class Found:
    """The files to read, by path, and how many others there are, by reason."""

    files: dict[str, Stamp] = field(default_factory=dict[str, Stamp])
    skipped: Counter[str] = field(default_factory=Counter[str])
    unreadable: dict[str, str] = field(default_factory=dict[str, str])


class Discovery:
    """Walks a project. Symbolic links are not followed: what they show is elsewhere, or here."""

    def __init__(self, root: Path, settings: ProjectSettings) -> None:
        self._root = root
        self._settings = settings
        self._code = _spec(settings.paths.code)
        self._docs = _spec(settings.paths.docs)

    def find(self) -> Found:
        """Return the files of the project as they are now."""
        found = Found()
        ignore = Ignore(self._root, self._settings.paths.ignore)
        pending: list[tuple[str, list[IgnoreFile]]] = [("", [])]
        while pending:
            folder, files = pending.pop()
            try:
                entries = sorted(os.scandir(self._root / folder), key=lambda entry: entry.name)
            except OSError as error:
                found.unreadable[folder or "."] = error.strerror or str(error)
                continue
            files = [*files, *ignore.of_folder(folder, (entry.name for entry in entries))]
            below = self._look(entries, folder, found, ignore, files)
            pending.extend((path, files) for path in below)
        return found

    def _look(
        self,
        entries: Sequence[os.DirEntry[str]],
        folder: str,
        found: Found,
        ignore: Ignore,
        files: Sequence[IgnoreFile],
    ) -> Iterator[str]:
        """Note the files of a folder, and yield the folders below it."""
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                path.encode()
            except UnicodeEncodeError:
                found.skipped["name"] += 1  # no JSON could hold it
                continue
            if entry.is_symlink():
                found.skipped["symlink"] += 1
            elif entry.is_dir(follow_symlinks=False):
                if ignore.is_ignored(f"{path}/", files) or path.count("/") >= _MAX_DEPTH:
                    found.skipped["ignored"] += 1
                else:
                    yield path
            elif not entry.is_file(follow_symlinks=False):
                found.skipped["special"] += 1
            elif ignore.is_ignored(path, files):
                found.skipped["ignored"] += 1
            else:
                self._note(entry, path, found)

    def _note(self, entry: os.DirEntry[str], path: str, found: Found) -> None:
        language = self.language(path)
        if language is None and not may_be_script(path):
            found.skipped["unknown"] += 1
        elif _GENERATED_NAME.fullmatch(entry.name):
            found.skipped["generated"] += 1
        else:
            try:
                stamp = Stamp.of(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                return
            except OSError as error:
                found.unreadable[path] = error.strerror or str(error)
                return
            if stamp.size_bytes > max_bytes(language, self._settings):
                found.skipped["huge"] += 1
            else:
                found.files[path] = stamp

    def language(self, path: str) -> Language | None:
        """Return the language of a path, if the project's patterns want it."""
        language = language_named(path)
        if self._code is None and self._docs is None:
            return language
        is_document = language is not None and language.family == "documentation"
        if self._code is not None and self._code.match_file(path):
            return language or TEXT
        if self._docs is not None and self._docs.match_file(path):
            return language if is_document else TEXT
        wanted = self._docs is None if is_document else self._code is None
        return language if wanted else None


def max_bytes(language: Language | None, settings: ProjectSettings) -> int:
    """Return the size above which a file is not read; settings files are small."""
    if language is not None and language.family == "data":
        return settings.indexing.max_data_bytes
    return settings.indexing.max_file_bytes


def _spec(patterns: Sequence[str] | None) -> GitIgnoreSpec | None:
    return GitIgnoreSpec.from_lines(patterns) if patterns is not None else None
