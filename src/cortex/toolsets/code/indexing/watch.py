"""Index again when files change: 500 ms after the last change, whatever it was."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from watchfiles import Change, watch

QUIET_MS = 500
# A stream of changes without a pause is looked at this often, so that no set of paths grows.
_MAX_WAIT_MS = 5_000
_TIMEOUT_MS = 1_000
# What the system may not have told: a round costs milliseconds.
_ROUND_EVERY_S = 60.0
_POLL_S = 2.0
_GIT_PATIENCE_S = 10.0
_NOT_WATCHED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})


def changes(
    root: Path, stop: threading.Event, tell: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Yield when the project should be looked at: first at once, then after each change."""
    try:
        yield from _told(root, stop)
    except OSError as error:
        tell(f"changes are not told by the system ({error}): looked for every {_POLL_S:g} s")
        while not stop.wait(_POLL_S):
            yield


def _told(root: Path, stop: threading.Event) -> Iterator[None]:
    due_at = time.monotonic()
    for changed in watch(
        root,
        watch_filter=lambda change, path: _is_wanted(root, change, path),
        debounce=_MAX_WAIT_MS,
        step=QUIET_MS,
        stop_event=stop,
        rust_timeout=_TIMEOUT_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
        raise_interrupt=True,
    ):
        if changed or time.monotonic() >= due_at:
            _await_git(root, stop)
            yield
            due_at = time.monotonic() + _ROUND_EVERY_S


def _is_wanted(root: Path, _change: Change, path: str) -> bool:
    parts = path[len(str(root)) :].split("/")
    if ".cortex" in parts:
        return parts[-1] == "config.yml"
    return _NOT_WATCHED.isdisjoint(parts)


def _await_git(root: Path, stop: threading.Event) -> None:
    """Let git finish what it does: a branch switch is one change, not a thousand."""
    lock = root / ".git" / "index.lock"
    patience = time.monotonic() + _GIT_PATIENCE_S
    while lock.exists() and time.monotonic() < patience and not stop.wait(0.05):
        pass
