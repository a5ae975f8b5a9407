"""Several works at once, and one error instead of a group of them."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio


async def together(*works: Callable[[], Awaitable[object]]) -> None:
    """Run all of them; the first that fails ends the others, and its error is raised."""
    try:
        async with anyio.create_task_group() as group:
            for work in works:
                group.start_soon(_run, work)
    except BaseExceptionGroup as failed:
        raise _first(failed) from failed


async def to_the_end(*works: Callable[[], Awaitable[object]]) -> None:
    """Run all of them to their ends, even if one fails or nobody waits any more.

    A write that is given up may still be made, after what clears away half-written batches.
    """
    with anyio.CancelScope(shield=True):
        await together(*(partial(_shielded, work) for work in works))


async def _shielded(work: Callable[[], Awaitable[object]]) -> None:
    with anyio.CancelScope(shield=True):
        await work()


async def _run(work: Callable[[], Awaitable[object]]) -> None:
    await work()


def _first(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    error = failed.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
