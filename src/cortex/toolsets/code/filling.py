"""Vectors for open projects, in the background: words are searchable long before them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np

from cortex.clock import Clock
from cortex.embedding.provider import DIMENSIONS, Provider
from cortex.errors import Conflict, Unavailable
from cortex.toolsets.code.indexing.vectors import attach, pending
from cortex.toolsets.code.models import Chunk
from cortex.toolsets.code.project import Project

log = logging.getLogger(__name__)

# Every batch rewrites the chunk files, and every rewrite is a reload: few batches are better.
BATCH = 1024
_HANDFUL = 64
_LOOK_S = 1.0
_PAUSE_S = 300.0
_OTHER_MODEL = "its vectors are by {}: run `cortex index --re-embed` in the project"


class VectorFiller:
    """Embeds what has no vector yet, one project after the other."""

    def __init__(
        self,
        clock: Clock,
        projects: Callable[[], Sequence[Project]],
        provider: Provider | None,
    ) -> None:
        self._clock = clock
        self._projects = projects
        self._provider = provider
        self._not_before: dict[Path, float] = {}

    async def run(self) -> None:
        """Fill for ever; a model that is away is tried again later."""
        while True:
            await anyio.sleep(_LOOK_S)
            for project in self._projects():
                await self.fill(project)

    async def fill(self, project: Project) -> int:
        """Embed a batch of one project's chunks; returns how many got a vector."""
        provider = self._provider
        if provider is None or not self._is_wanting(project):
            return 0
        try:
            model = await provider.model()
            if project.snapshot.vectors and project.snapshot.vectors.model != model:
                project.vector_error = _OTHER_MODEL.format(project.snapshot.vectors.model)
                return 0  # not ours to throw away
            chunks = await anyio.to_thread.run_sync(_pending, project.folder, model)
            vectors = await self._embedded(provider, project, chunks)
        except (Conflict, Unavailable) as error:
            log.warning("%s: no vectors for now: %s", project.folder, error)
            project.vector_error = str(error)
            self._not_before[project.folder] = self._clock.monotonic() + _PAUSE_S
            return 0
        project.vector_error = ""
        # Whoever indexed it may ask only when all is done.
        project.used_at = self._clock.monotonic()
        count = await anyio.to_thread.run_sync(attach, project.folder, model, DIMENSIONS, vectors)
        log.info("%s: %d more chunks have vectors", project.folder, count)
        return count

    def retry(self, folder: Path) -> None:
        """Try a project again at once: somebody has just indexed it."""
        self._not_before.pop(folder, None)

    def _is_wanting(self, project: Project) -> bool:
        if self._clock.monotonic() < self._not_before.get(project.folder, 0.0):
            return False
        vectors = project.snapshot.vectors
        return vectors is None or not vectors.is_there.all()

    async def _embedded(
        self, provider: Provider, project: Project, chunks: Sequence[Chunk]
    ) -> Mapping[str, bytes]:
        """Return vectors by content hash; stops early when the project is closed meanwhile."""
        found: dict[str, bytes] = {}
        for begin in range(0, len(chunks), _HANDFUL):
            if project not in self._projects():
                break
            some = chunks[begin : begin + _HANDFUL]
            rows = await provider.embed([chunk.passage for chunk in some], "passage")
            for chunk, row in zip(some, rows.astype(np.dtype("<f4")), strict=True):
                found[chunk.content_hash] = row.tobytes()
        return found


def _pending(folder: Path, model: str) -> list[Chunk]:
    return list(islice(pending(folder, model), BATCH))
