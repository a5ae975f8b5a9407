"""Tells of session files that change, as soon as the system does; folders may come later."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

import anyio
from watchfiles import Change, awatch

from cortex.toolsets.conversations.ingest.files import owner_of
from cortex.toolsets.conversations.ingest.globs import is_of, root_of
from cortex.toolsets.conversations.ingest.ingestor import Task
from cortex.toolsets.conversations.ingest.together import together
from cortex.toolsets.conversations.sources.catalog import Source

log = logging.getLogger(__name__)

# How often the native watcher looks whether something came: its cost while idle, 0.04 % of a core
# (0.11 % at 50 ms), and a part of the time until a change is found.
_STEP_MS = 200

Changes = set[tuple[Change, str]]


class Watcher:
    """Watches the folders of sources, and for those that are missing the nearest one above."""

    def __init__(
        self,
        sources: Sequence[Source],
        debounce_ms: int,
        on_files: Callable[[list[Task]], None],
        on_folders: Callable[[], None],
    ) -> None:
        self._sources = sources
        self._step_ms = max(debounce_ms, _STEP_MS)
        self._on_files = on_files
        self._on_folders = on_folders
        self._roots = sorted({root_of(source) for source in sources})

    async def run(self) -> None:
        """Watch for ever; returns when the system refuses, and the caller's rounds must do."""
        while True:
            there = [root for root in self._roots if os.path.isdir(root)]
            missing = [root for root in self._roots if root not in there]
            above = sorted({_nearest(root) for root in missing})
            if not there and not above:
                return
            stop = anyio.Event()
            try:
                await together(
                    partial(self._watch_files, there, stop),
                    partial(self._watch_above, above, missing, stop),
                    partial(_stop_at_end, stop),
                )
            except (OSError, RuntimeError) as error:
                log.warning("changes are not told by the system (%s): looked for instead", error)
                return

    async def _watch_files(self, roots: Sequence[str], stop: anyio.Event) -> None:
        if roots:
            # What came before the watch began is found by a round now.
            self._on_folders()
            async for changes in self._changes(roots, stop, self._is_wanted, recursive=True):
                self._tell(changes)

    async def _watch_above(
        self, folders: Sequence[str], missing: Sequence[str], stop: anyio.Event
    ) -> None:
        """Wait until a folder that was missing, or one on the way to it, is there."""
        if not folders:
            return
        nearest = [_nearest(root) for root in missing]
        async for _ in self._changes(folders, stop, _is_added, recursive=False):
            if [_nearest(root) for root in missing] != nearest:
                stop.set()

    def _changes(
        self,
        folders: Iterable[str],
        stop: anyio.Event,
        wanted: Callable[[Change, str], bool],
        *,
        recursive: bool,
    ) -> AsyncIterator[Changes]:
        return awatch(
            *folders,
            watch_filter=wanted,
            debounce=self._step_ms * 2,
            step=self._step_ms,
            stop_event=stop,
            recursive=recursive,
            ignore_permission_denied=True,
        )

    def _is_wanted(self, change: Change, path: str) -> bool:
        if change == Change.deleted:
            return False
        owner = owner_of(path)
        if any(is_of(source, owner) for source in self._sources):
            return True
        # Files may have come into a new folder before it was watched.
        return change == Change.added and os.path.isdir(path)

    def _tell(self, changes: Changes) -> None:
        paths = sorted({owner_of(path) for _, path in changes})
        tasks = [Task(s, path) for path in paths for s in self._sources if is_of(s, path)]
        if tasks:
            self._on_files(tasks)
        if any(os.path.isdir(path) for path in paths):
            self._on_folders()


async def _stop_at_end(stop: anyio.Event) -> None:
    """Tell the native watcher when its task is cancelled; by itself it would look after 5 s."""
    try:
        await stop.wait()
    finally:
        stop.set()


def _is_added(change: Change, _path: str) -> bool:
    return change != Change.modified


def _nearest(folder: str) -> str:
    """Return the folder itself, or the nearest one above it that is there."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder
