"""When a watched project is looked at again; `tests/e2e/test_index.py` has the rest."""

import threading
from pathlib import Path

import pytest

from cortex.toolsets.code.indexing import watch


def test_where_the_system_tells_nothing_files_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many folders for the system's limit of watches, for one."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(watch, "watch", refuse)
    monkeypatch.setattr(watch, "_POLL_S", 0.01)
    stop = threading.Event()
    said: list[str] = []
    for rounds, _ in enumerate(watch.changes(tmp_path, stop, said.append)):
        if rounds == 2:
            stop.set()
    assert len(said) == 1
    assert "looked for every" in said[0]


@pytest.mark.parametrize(
    ("path", "is_wanted"),
    [
        ("a.py", True),
        ("deep/er/a.py", True),
        (".cortex/config.yml", True),
        (".cortex/chunks/code-data.json", False),
        (".git/index", False),
        ("web/node_modules/a.js", False),
    ],
)
def test_only_changes_of_the_project_itself_count(
    tmp_path: Path, path: str, is_wanted: bool
) -> None:
    found = watch._is_wanted(tmp_path, watch.Change.modified, str(tmp_path / path))
    assert found is is_wanted


def test_a_round_waits_until_git_is_done(tmp_path: Path) -> None:
    lock = tmp_path / ".git" / "index.lock"
    lock.parent.mkdir()
    lock.touch()
    waiting = threading.Thread(target=watch._await_git, args=(tmp_path, threading.Event()))
    waiting.start()
    assert waiting.is_alive()
    lock.unlink()
    waiting.join(5)
    assert not waiting.is_alive()
