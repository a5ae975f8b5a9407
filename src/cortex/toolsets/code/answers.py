"""How `cortex_search` answers: the chunks as their files have them, without their vectors."""

from typing import Any

from pydantic import Field

from cortex.clock import iso_utc
from cortex.gateway.spec import Result
from cortex.toolsets.code.service import Found, Hit


class FoundChunk(Result):
    """A chunk as its file has it."""

    id: str
    chunk_type: str
    title: str
    text: str
    tags: list[str]
    metadata: dict[str, Any]
    created_at: str
    updated_at: str


class SearchResult(Result):
    """A chunk, and how well it fits from 0 to 1."""

    chunk: FoundChunk
    combined_score: float
    explanation: dict[str, float] | None = Field(
        default=None, description="What the score is made of, with include_stats."
    )


class SearchAnswer(Result):
    """The chunks that fit best, best first."""

    results: list[SearchResult]
    total: int
    stats: dict[str, Any] | None = Field(
        default=None, description="About the search and the index, with include_stats."
    )


def search_answer(found: Found, *, include_stats: bool) -> SearchAnswer:
    """Return the answer to a search."""
    return SearchAnswer(
        results=[_result(hit, include_stats=include_stats) for hit in found.hits],
        total=len(found.hits),
        stats=_stats(found) if include_stats else None,
    )


def _result(hit: Hit, *, include_stats: bool) -> SearchResult:
    return SearchResult(
        chunk=FoundChunk.model_validate(hit.chunk),
        combined_score=hit.combined_score,
        explanation=dict(hit.parts) if include_stats else None,
    )


def _stats(found: Found) -> dict[str, Any]:
    reloads = found.reloads
    return {
        "took_ms": found.took_ms,
        "terms": list(found.terms),
        "chunks": found.chunks,
        "chunks_with_vectors": found.chunks_with_vectors,
        "model": found.model,
        "words_only": found.words_only,
        "problems": list(found.problems[:20]),
        "reloads": {
            "total": reloads.total,
            "failed": reloads.failed,
            "last_at": iso_utc(reloads.last_at) if reloads.last_at else "",
            "last_duration_ms": reloads.last_duration_ms,
            "last_error": reloads.last_error,
        },
    }
