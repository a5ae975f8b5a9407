"""The daemon's log: rotated, bounded, readable by its owner only."""

import logging
import os
import sys
from logging.handlers import RotatingFileHandler

from cortex.home import Home
from cortex.settings.models import LogSettings

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class PrivateRotatingFile(RotatingFileHandler):
    """Files of mode 0600, of which no more than `backupCount` and one are kept."""

    def doRollover(self) -> None:  # noqa: N802
        if self.backupCount == 0:
            # The standard library would go on writing to the same file, for ever.
            os.truncate(self.baseFilename, 0)
            return
        super().doRollover()

    def _open(self):  # noqa: ANN202  # as in the standard library
        return open(
            self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=_private
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def configure_logs(home: Home, settings: LogSettings, *, to_stderr: bool) -> None:
    """Send all logging to the home's log file, and to stderr when somebody watches."""
    handlers: list[logging.Handler] = [
        PrivateRotatingFile(
            home.log_file, maxBytes=settings.max_bytes, backupCount=settings.backups
        )
    ]
    if to_stderr:
        handlers.append(logging.StreamHandler(sys.stderr))
    formatter = logging.Formatter(_FORMAT)
    root = logging.getLogger()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(settings.level.upper())
    # What it warns of, it raises as well; a person who starts us by hand gets one line.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    # They tell of every session and request; the audit log does that better.
    for name in ("uvicorn", "mcp"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # A disk that is full must not turn each log line into a traceback on stderr.
    logging.raiseExceptions = False
