"""The rules of code search: which project, which vectors, and what is answered."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import orjson

from cortex.clock import Clock
from cortex.embedding.provider import DIMENSIONS, Provider
from cortex.errors import Conflict, InvalidParams, Unavailable
from cortex.toolsets.code.project import Project, ProjectState, Reloads, chunks_folder
from cortex.toolsets.code.ranking import Floats, Ranked, shown
from cortex.toolsets.code.search import Filters, Snapshot, Vectors
from cortex.toolsets.code.terms import read_query

log = logging.getLogger(__name__)

IDLE_S = 900.0
_LOOK_S = 0.1

ProviderOf = Callable[[Mapping[str, str]], Provider | None]
"""Returns the provider for a session, by its environment; None for words alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is looked for, and where from."""

    query: str
    limit: int
    filters: Filters
    cwd: str | None
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found, and what its score is made of."""

    chunk: Mapping[str, Any]
    combined_score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer to a search."""

    hits: Sequence[Hit]
    terms: Sequence[str]
    chunks: int
    chunks_with_vectors: int
    model: str
    words_only: str
    reloads: Reloads
    problems: Sequence[str]
    took_ms: float


class CodeService:
    """Answers questions about the code of any project that has chunk files."""

    def __init__(
        self, clock: Clock, provider_of: ProviderOf, *, allow_words_only: bool = False
    ) -> None:
        self._clock = clock
        self._provider_of = provider_of
        self._allow_words_only = allow_words_only
        self._projects: dict[Path, Project] = {}
        self._opening: dict[Path, anyio.Lock] = {}

    @property
    def projects(self) -> Sequence[Project]:
        """The projects that are open."""
        return tuple(self._projects.values())

    async def run(self) -> None:
        """Reload what changed and close what nobody asks about, for ever."""
        while True:
            await anyio.sleep(_LOOK_S)
            if self._projects:
                await self.look()

    async def look(self) -> None:
        """Do once what `run` does."""
        self._drop_idle()
        projects = self.projects
        due = await anyio.to_thread.run_sync(lambda: [p for p in projects if p.is_due()])
        for project in due:
            await anyio.to_thread.run_sync(project.reload)

    async def open(self, folder: Path) -> ProjectState:
        """Open a project before anybody asks, so that its chunks get their vectors."""
        return (await self._project(folder)).state

    async def search(self, asked: Asked) -> Found:
        """Find chunks by words and meaning, best first."""
        began = self._clock.monotonic()
        if not asked.query.strip():
            raise InvalidParams("query cannot be empty")
        project = await self._project(chunks_folder(asked.cwd, asked.environ))
        snapshot = project.snapshot
        vector, words_only = await self._vector(snapshot, asked)
        query = read_query(asked.query)
        ranked = await anyio.to_thread.run_sync(
            partial(snapshot.ranked, query, vector, asked.filters, asked.limit)
        )
        vectors = snapshot.vectors
        return Found(
            hits=_hits(snapshot, ranked),
            terms=query.terms,
            chunks=len(snapshot),
            chunks_with_vectors=vectors.count if vectors else 0,
            model=vectors.model if vectors else "",
            words_only=words_only,
            reloads=project.reloads,
            problems=snapshot.problems,
            took_ms=round((self._clock.monotonic() - began) * 1000, 2),
        )

    async def _project(self, folder: Path) -> Project:
        """Return an open project, opening it for whoever asks first."""
        project = self._projects.get(folder)
        if project is None:
            async with self._opening.setdefault(folder, anyio.Lock()):
                project = self._projects.get(folder)
                if project is None:
                    project = await anyio.to_thread.run_sync(Project, folder, self._clock)
                    self._projects[folder] = project
            self._opening.pop(folder, None)
        project.used_at = self._clock.monotonic()
        return project

    def _drop_idle(self) -> None:
        now = self._clock.monotonic()
        for folder, project in list(self._projects.items()):
            if now - project.used_at > IDLE_S:
                log.info("%s: closed, as nobody asked for %g s", folder, IDLE_S)
                del self._projects[folder]

    async def _vector(self, snapshot: Snapshot, asked: Asked) -> tuple[Floats | None, str]:
        """Return the query's vector, or why there is none; raises where that must not be."""
        vectors = snapshot.vectors
        if vectors is None or not vectors.is_there.any():
            return None, "no chunk has a vector yet"
        provider = self._provider_of(asked.environ)
        if provider is None:
            return None, "no embedding model is in use"
        try:
            await _agreed(provider, vectors)
            return (await provider.embed([asked.query], "query"))[0], ""
        except (Conflict, Unavailable) as error:
            if not self._allow_words_only:
                raise
            log.warning("searched by words alone: %s", error)
            return None, error.message


async def _agreed(provider: Provider, vectors: Vectors) -> None:
    """Make sure that chunks and questions are embedded alike."""
    model = await provider.model()
    if model != vectors.model:
        raise Conflict(
            f"The chunks were embedded by {vectors.model}, and questions are by {model}",
            hint="run `cortex index` in the project: it embeds them again",
        )
    if vectors.dimensions != DIMENSIONS:
        raise Conflict(
            f"The chunks have vectors of {vectors.dimensions} numbers; {DIMENSIONS} are needed",
            hint="run `cortex index` in the project: it embeds them again",
        )


def _hits(snapshot: Snapshot, ranked: Ranked) -> list[Hit]:
    return [
        Hit(
            chunk=orjson.loads(snapshot.stored[number]),
            combined_score=round(shown(float(ranked.worth[place])), 6),
            parts={name: round(float(part[place]), 4) for name, part in ranked.parts.items()},
        )
        for place, number in enumerate(ranked.chunk.tolist())
    ]
