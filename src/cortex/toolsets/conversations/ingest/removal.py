"""SQL that takes rows away: of a batch that was cut off, of records that were rewritten.

Everything here may be run again after a crash at any point, and then does what is left to do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from cortex.store.engine import Engine
from cortex.toolsets.conversations.ingest.plan import Plan, Removal
from cortex.toolsets.conversations.ingest.together import together

T = TypeVar("T")

# Rows of the index lie by term, so it is read whole: seconds where there are many millions.
_TIMEOUT_S = 600.0
# Values of one statement travel in its address to a server, which takes a megabyte.
_MAX_VALUES = 10_000
_MAX_RECORDS = 1_000

_OF_DOCS = "doc_id IN {docs:Array(UInt64)}"
_OF_UIDS = "session_id IN {sessions:Array(String)} AND event_uid IN {uids:Array(String)}"
_OF_KEYS = (
    "session_id IN {sessions:Array(String)}"
    " AND (session_id, record_key) IN {keys:Array(Tuple(String, String))}"
)
_OLDER = "batch < {before:UInt64}"


class RowRemover:
    """Removes rows; events last, as they tell which links are theirs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def remove_batch(self, batch: int, plan: Plan) -> None:
        """Remove every row of a batch that was not finished, and finish what it was to remove."""
        await self.remove_records(plan.removals, before=batch)
        for docs in _pieces((doc_id for run in plan.docs for doc_id in run), _MAX_VALUES):
            await self._delete("search_postings", _OF_DOCS, {"docs": docs})
        named = {"batch": batch}
        tables = (
            "search_documents raw_events event_links tool_io ingest_errors ingest_checkpoints"
            " ingest_streams events"
        ).split()
        await together(*(partial(self._delete, t, "batch = {batch:UInt64}", named) for t in tables))

    async def remove_records(self, removals: Sequence[Removal], before: int) -> None:
        """Remove records that batches before this one wrote."""
        for some in _pieces(removals, _MAX_RECORDS):
            named = {
                "before": before,
                "sessions": sorted({removal.session_id for removal in some}),
                "keys": [(removal.session_id, removal.key) for removal in some],
            }
            doc_ids = (doc_id for removal in some for doc_id in removal.doc_ids)
            for docs in _pieces(doc_ids, _MAX_VALUES):
                await self._remove_events(named | {"docs": docs})
            await self._delete("raw_events", f"{_OF_KEYS} AND {_OLDER}", named)

    async def _remove_events(self, named: Mapping[str, Any]) -> None:
        where = f"{_OF_DOCS} AND {_OLDER}"
        found = await self._engine.query(
            f"SELECT event_uid FROM events WHERE {where}",  # noqa: S608  # words of this module
            {name: named[name] for name in ("docs", "before")},
        )
        values = {**named, "uids": [str(row["event_uid"]) for row in found]}
        await together(
            partial(self._delete, "search_postings", _OF_DOCS, values),
            partial(self._delete, "search_documents", where, values),
            partial(self._delete, "event_links", f"{_OF_UIDS} AND {_OLDER}", values),
            partial(self._delete, "tool_io", f"{_OF_UIDS} AND {_OLDER}", values),
        )
        await self._delete("events", where, values)

    async def _delete(self, table: str, where: str, values: Mapping[str, Any]) -> None:
        """Delete the rows if there are any: a question costs less than a mutation of nothing."""
        bound = {name: value for name, value in values.items() if f"{{{name}:" in where}
        found = await self._engine.query(
            f"SELECT 1 FROM {table} WHERE {where} LIMIT 1",  # noqa: S608  # words of this module
            bound,
            timeout_s=_TIMEOUT_S,
        )
        if found:
            await self._engine.command(
                f"DELETE FROM {table} WHERE {where}",  # noqa: S608  # words of this module
                bound,
                timeout_s=_TIMEOUT_S,
            )


def _pieces(values: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(values)
    while piece := list(islice(rest, size)):
        yield piece
