"""One round of indexing: what changed is cut again, all else is carried over as it is."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cortex.toolsets.code.indexing.carried import Carried, Lines
from cortex.toolsets.code.indexing.catalog import TEXT
from cortex.toolsets.code.indexing.chunk_files import locked
from cortex.toolsets.code.indexing.discovery import Discovery, Found, max_bytes
from cortex.toolsets.code.indexing.project import CONFIG_FILE, ProjectSettings
from cortex.toolsets.code.indexing.record import (
    FileRecord,
    Record,
    moment,
    read_record,
    write_record,
)
from cortex.toolsets.code.indexing.stored import Damaged, Stored
from cortex.toolsets.code.indexing.work import Job, Outcome, Work
from cortex.toolsets.code.models import CHUNK_FILES

# Starting processes takes as long as cutting this many files.
WORTH_FILES = 64


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a round is."""

    files_done: int
    files: int
    chunks: int


@dataclass(slots=True, kw_only=True)
class Report:
    """What a round did. `problems` are said once for each state of a file."""

    files: int = 0
    files_parsed: int = 0
    files_removed: int = 0
    chunks: dict[str, int] = field(default_factory=dict[str, int])
    skipped: Counter[str] = field(default_factory=Counter[str])
    problems: dict[str, str] = field(default_factory=dict[str, str])
    has_changed: bool = False
    took_s: float = 0.0

    def values(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "files": self.files,
            "files_parsed": self.files_parsed,
            "files_removed": self.files_removed,
            "chunks": self.chunks,
            "skipped": dict(self.skipped.most_common()),
            "problems": self.problems,
            "has_changed": self.has_changed,
            "took_s": round(self.took_s, 3),
        }


Tell = Callable[[Progress], None]


class Indexer:
    """Keeps the chunk files of one project like its files."""

    def __init__(self, root: Path, folder: Path, settings: ProjectSettings) -> None:
        self._root = root
        self._folder = folder
        self._settings = settings
        self._discovery = Discovery(root, settings)
        self._work = Work(str(root), settings.limits)
        self._said: dict[str, str] = {}

    def run(self, tell: Tell = lambda _: None) -> Report:
        """Look at every file once and write what changed."""
        began = time.monotonic()
        with locked(self._folder):
            known = read_record(self._folder)
            stored = Stored(self._folder)
            is_known = stored.is_as_in(known)
            try:
                report = self._round(known if is_known else Record(), stored, tell)
            except Damaged:
                report = self._round(Record(), stored, tell)
        report.took_s = time.monotonic() - began
        problems = report.problems
        report.problems = {p: why for p, why in problems.items() if self._said.get(p) != why}
        self._said = problems
        return report

    def _round(self, known: Record, stored: Stored, tell: Tell) -> Report:
        began = time.monotonic()
        found = self._discovery.find()
        report = Report(skipped=found.skipped, problems=dict(found.unreadable))
        if unused := self._settings.embedding.unused:
            report.problems[CONFIG_FILE] = unused
        is_same_cut = known.fingerprint == self._settings.fingerprint
        done = self._done(self._jobs(known if is_same_cut else Record(), found), report, tell)
        gone = known.files.keys() - found.files.keys() - _blocked(known, found)
        gone |= {outcome.path for outcome in done if outcome.is_gone} & known.files.keys()
        report.files_removed = len(gone)
        record = self._record(known, done, gone)
        if not is_same_cut or record.files != known.files:
            now = moment()
            changed = {o.path: o for o in done if _is_new(o, known.files.get(o.path))}
            report.has_changed = _write(stored, known, record, changed, now)
            write_record(self._folder, record, now=now, took_s=time.monotonic() - began)
        _count(record, report)
        return report

    def _jobs(self, known: Record, found: Found) -> list[Job]:
        jobs: list[Job] = []
        for path, stamp in found.files.items():
            before = known.files.get(path)
            if before is not None and before.stamp == stamp:
                continue
            language = self._discovery.language(path)
            most = max_bytes(language, self._settings)
            jobs.append(Job(path, before.sha256 if before else "", most, language is TEXT))
        return jobs

    def _done(self, jobs: Sequence[Job], report: Report, tell: Tell) -> list[Outcome]:
        done: list[Outcome] = []
        chunks = 0
        for outcome in self._outcomes(jobs):
            done.append(outcome)
            chunks += len(outcome.chunks)
            tell(Progress(len(done), len(jobs), chunks))
            if outcome.problem:
                report.problems[outcome.path] = outcome.problem
            if outcome.chunks or outcome.is_broken:
                report.files_parsed += 1
        return done

    def _outcomes(self, jobs: Sequence[Job]) -> Iterable[Outcome]:
        if len(jobs) < WORTH_FILES or (os.cpu_count() or 1) < 2:
            return map(self._work.do, jobs)
        from cortex.toolsets.code.indexing.pool import outcomes  # noqa: PLC0415  # 60 ms

        return outcomes(self._work, jobs)

    def _record(self, known: Record, done: Sequence[Outcome], gone: set[str]) -> Record:
        files = {path: file for path, file in known.files.items() if path not in gone}
        for outcome in done:
            before = files.get(outcome.path)
            if _is_new(outcome, before):
                counts = Counter(chunk.chunk_type for chunk in outcome.chunks)
                numbers = tuple(counts[chunk_type] for chunk_type in CHUNK_FILES)
                files[outcome.path] = FileRecord(
                    outcome.sha256, outcome.stamp, numbers, outcome.skipped
                )
            elif before is not None and outcome.sha256:
                seen = replace(before, stamp=outcome.stamp, sha256=outcome.sha256)
                files[outcome.path] = seen
        fingerprint = self._settings.fingerprint
        return Record(fingerprint, dict(sorted(files.items())), dict(known.generated))


def _is_new(outcome: Outcome, before: FileRecord | None) -> bool:
    """Tell whether an outcome takes the place of what was known of its file.

    Not if the file is gone, is the same, cannot be read, or cannot be parsed but once could.
    """
    if outcome.is_gone or outcome.is_same:
        return False
    if outcome.is_broken:
        return before is None or not any(before.counts)
    return not outcome.problem


def _blocked(known: Record, found: Found) -> set[str]:
    """Return known files that cannot be looked at now: unreadable, or below such a folder."""
    folders = tuple(f"{path}/" for path in found.unreadable)
    is_root = "." in found.unreadable
    return {p for p in known.files if is_root or p in found.unreadable or p.startswith(folders)}


def _write(
    stored: Stored, known: Record, record: Record, changed: dict[str, Outcome], now: str
) -> bool:
    """Write the chunk files that are not as they were; returns whether there was one."""
    old = stored.by_file(known)
    before = stored.every_line() if not known.files else _of_files(old, changed)
    carried = Carried(before)
    new: dict[str, Lines] = {
        path: carried.lines(outcome.chunks, now) for path, outcome in changed.items()
    }
    has_changed = False
    for number, chunk_type in enumerate(CHUNK_FILES):
        lines = [
            line
            for path in record.files
            for line in (new[path] if path in new else old[path])[number]
        ]
        if stored.replace(chunk_type, lines, now):
            has_changed = True
        record.generated[chunk_type] = stored.generated(chunk_type)
    return has_changed


def _of_files(old: Mapping[str, Lines], paths: Iterable[str]) -> list[bytes]:
    return [line for path in paths if path in old for lines in old[path] for line in lines]


def _count(record: Record, report: Report) -> None:
    report.files = sum(1 for file in record.files.values() if not file.skipped)
    report.skipped.update(file.skipped for file in record.files.values() if file.skipped)
    for number, chunk_type in enumerate(CHUNK_FILES):
        report.chunks[chunk_type] = sum(file.counts[number] for file in record.files.values())
