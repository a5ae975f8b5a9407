import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.daemon.logs import configure_logs
from cortex.home import Home
from cortex.settings.models import LogSettings


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home, and the root logger as it was when the test ends."""
    home = Home(str(tmp_path))
    Path(home.logs).mkdir()
    root, libraries = logging.getLogger(), logging.getLogger("urllib3")
    before = (root.level, list(root.handlers), logging.raiseExceptions, libraries.level)
    yield home
    for handler in set(root.handlers) - set(before[1]):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(before[0])
    logging.raiseExceptions = before[2]
    libraries.setLevel(before[3])


def logs_of(home: Home) -> dict[str, Path]:
    return {path.name: path for path in Path(home.logs).iterdir()}


@pytest.mark.parametrize(
    ("backups", "names"),
    [
        (2, {"cortexd.log", "cortexd.log.1", "cortexd.log.2"}),
        # Python's own handler would let the one file grow without end.
        (0, {"cortexd.log"}),
    ],
)
def test_logs_are_bounded_in_size_and_number(home: Home, backups: int, names: set[str]) -> None:
    configure_logs(home, LogSettings(max_bytes=10_000, backups=backups), to_stderr=False)
    for number in range(1000):
        logging.getLogger("cortex.test").info("line %d, %s", number, "." * 50)
    logs = logs_of(home)
    assert set(logs) == names
    assert all(log.stat().st_size <= 10_000 for log in logs.values())
    assert all(stat.S_IMODE(log.stat().st_mode) == 0o600 for log in logs.values())
    assert "line 999" in logs["cortexd.log"].read_text()


def test_only_messages_of_the_level_are_kept(home: Home) -> None:
    configure_logs(home, LogSettings(level="warning"), to_stderr=False)
    logging.getLogger("cortex.test").info("unimportant")
    logging.getLogger("cortex.test").warning("important")
    text = Path(home.log_file).read_text()
    assert "WARNING cortex.test: important" in text
    assert "unimportant" not in text


def test_text_that_is_no_unicode_is_logged_all_the_same(home: Home) -> None:
    configure_logs(home, LogSettings(), to_stderr=False)
    logging.getLogger("cortex.test").info("half a pair: %s", "\ud800")
    assert "half a pair: \\ud800" in Path(home.log_file).read_text()


def test_stderr_gets_the_log_when_somebody_watches(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(home, LogSettings(), to_stderr=True)
    logging.getLogger("cortex.test").info("seen")
    assert "seen" in capsys.readouterr().err
    assert "seen" in Path(home.log_file).read_text()
