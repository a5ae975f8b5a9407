"""Code tools: what an agent may ask of the repository it works in. The rules live in service.py."""

from typing import Annotated, ClassVar

from pydantic import Field

from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Gate, Params, Policy, ToolCall
from cortex.toolsets.code.answers import SearchAnswer, search_answer
from cortex.toolsets.code.models import ChunkType
from cortex.toolsets.code.search import Filters
from cortex.toolsets.code.service import Asked, CodeService

TOOLSET = "code"
MAX_RESULTS = 100

SEARCH = Policy(
    gates=frozenset({Gate.CODE_READ}),
    failure="protocol",
    safe_fields=frozenset({"limit", "chunk_types"}),
)


class SearchParams(Params):
    """What may be asked of `cortex_search`."""

    clamps: ClassVar[bool] = True

    query: Annotated[
        str, Field(max_length=4096, description="A question, words, or the name of a symbol.")
    ]
    limit: Annotated[int, Field(ge=1, le=MAX_RESULTS, description="Most results.")] = 15
    tags: Annotated[
        tuple[str, ...],
        Field(description="Only chunks with all of these, such as `code`, `go`, `architecture`."),
    ] = ()
    chunk_types: Annotated[
        tuple[ChunkType, ...],
        Field(description="Only these types: definitions hold code, symbols list a file's."),
    ] = ()
    path: Annotated[
        str, Field(max_length=1024, description="Only files that match, as `src/**/*.py`.")
    ] = ""
    include_stats: Annotated[bool, Field(description="Say what each score is made of.")] = False


def register(registry: ToolRegistry, code: CodeService) -> None:
    """Declare the code tools; called once, by app.py."""

    async def cortex_search(params: SearchParams, call: ToolCall) -> SearchAnswer:
        """Search for relevant context in the project codebase and documentation.

        Finds definitions, symbols, data and documentation by words and by meaning.
        """
        found = await code.search(
            Asked(
                query=params.query,
                limit=params.limit,
                filters=Filters(tags=params.tags, chunk_types=params.chunk_types, path=params.path),
                cwd=call.caller.cwd,
                environ=call.caller.environ,
            )
        )
        return search_answer(found, include_stats=params.include_stats)

    registry.add(
        "cortex_search",
        cortex_search,
        toolset=TOOLSET,
        params=SearchParams,
        result=SearchAnswer,
        policy=SEARCH,
    )
