"""One project that is open: its state, and how the next one takes its place.

A reload builds the new state beside the old one and swaps them: who searches meanwhile is answered
from the old one, and a file that is half written changes nothing.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cortex.clock import Clock
from cortex.errors import Unavailable
from cortex.toolsets.code.building import build
from cortex.toolsets.code.loading import CorruptChunks, read_files
from cortex.toolsets.code.models import CHUNK_FILES
from cortex.toolsets.code.search import Snapshot

log = logging.getLogger(__name__)

CHUNKS_VARIABLE = "CORTEX_CHUNKS_DIR"
QUIET_S = 0.5
"""How long after the last write a reload begins: an indexer writes several files."""

_Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Reloads:
    """How the reloads of a project went, as `include_stats` shows it."""

    total: int = 0
    failed: int = 0
    last_at: datetime | None = None
    last_duration_ms: float = 0.0
    last_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState:
    """What a person is told of an open project."""

    folder: str
    chunks: int
    chunks_with_vectors: int
    model: str
    last_error: str


def chunks_folder(cwd: str | None, environ: Mapping[str, str]) -> Path:
    """Return the chunk files' folder of a session: what it says, or the project it stands in."""
    said = environ.get(CHUNKS_VARIABLE)
    if said:
        return (Path(cwd or "/") / said).resolve()
    if not cwd:
        raise Unavailable(
            "It is not known which project this session belongs to",
            hint=f"start it in the project, or set {CHUNKS_VARIABLE}",
        )
    here = Path(cwd).resolve()
    for folder in (here, *here.parents):
        chunks = folder / ".cortex" / "chunks"
        if chunks.is_dir():
            return chunks
        # A worktree inside another checkout is a project of its own.
        if (folder / ".git").exists():
            break
    return here / ".cortex" / "chunks"


class Project:
    """The chunk files of one folder, loaded. Blocking; its methods belong in threads."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Load it; raises `Unavailable` with what to do if there is nothing to load."""
        self.folder = folder
        self.used_at = clock.monotonic()
        self.reloads = Reloads()
        self.vector_error = ""
        self._clock = clock
        self._lock = threading.Lock()
        self._loaded_from = self._seen = _signature(folder)
        self._seen_at = clock.monotonic()
        self.snapshot = _built(folder)
        _tell(self)

    @property
    def state(self) -> ProjectState:
        """How it is now."""
        snapshot = self.snapshot
        vectors = snapshot.vectors
        return ProjectState(
            folder=str(self.folder),
            chunks=len(snapshot),
            chunks_with_vectors=vectors.count if vectors else 0,
            model=vectors.model if vectors else "",
            last_error=self.reloads.last_error or self.vector_error,
        )

    def is_due(self) -> bool:
        """Tell whether the files changed, and have been left alone for long enough."""
        now = self._clock.monotonic()
        signature = _signature(self.folder)
        if signature != self._seen:
            self._seen, self._seen_at = signature, now
        return self._seen != self._loaded_from and now - self._seen_at >= QUIET_S

    def reload(self) -> None:
        """Take over what the files hold now; what cannot be read is said, and changes nothing."""
        with self._lock:
            began = self._clock.monotonic()
            signature, error = self._seen, ""
            try:
                self.snapshot = _built(self.folder, self.snapshot)
            except Unavailable as problem:
                error = problem.message
                log.warning("%s: the old state is kept: %s", self.folder, error)
            # A file that is wrong is not read again before it changes.
            self._loaded_from = signature
            self.reloads = replace(
                self.reloads,
                total=self.reloads.total + 1,
                failed=self.reloads.failed + bool(error),
                last_at=self._clock.now(),
                last_duration_ms=round((self._clock.monotonic() - began) * 1000, 1),
                last_error=error,
            )
        if not error:
            _tell(self)


def _built(folder: Path, before: Snapshot | None = None) -> Snapshot:
    try:
        files = read_files(folder)
        if files:
            return build(files, before)
    except CorruptChunks as error:
        raise Unavailable(
            f"{folder} cannot be read: {error}", hint="run `cortex index` again"
        ) from error
    raise Unavailable(
        f"{folder} holds no chunk files", hint="run `cortex index` in the project first"
    )


def _signature(folder: Path) -> _Signature:
    return tuple(_stamp(folder / name) for name in CHUNK_FILES.values())


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        known = path.stat()
    except OSError:
        return None
    return known.st_ino, known.st_size, known.st_mtime_ns


def _tell(project: Project) -> None:
    snapshot = project.snapshot
    log.info("%s: %d chunks", project.folder, len(snapshot))
    for problem in snapshot.problems[:20]:
        log.warning("%s: %s", project.folder, problem)
