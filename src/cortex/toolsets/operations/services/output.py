"""The logs of services: written by the services themselves, put aside by us when they grow.

A service holds its log open for appending, also while there is no daemon, so the file is copied and
then emptied, never renamed. A line written between the two is lost; a kill between the two leaves
lines twice.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Logs:
    """The folder of the logs, and how much of each is kept."""

    folder: Path
    max_bytes: int
    backups: int

    def path(self, name: str) -> Path:
        """Return the log of one service."""
        return self.folder / f"{name}.log"

    def rotate(self, name: str) -> bool:
        """Put the log aside if it has grown too long; whether it had."""
        path = self.path(name)
        try:
            size_bytes = path.stat().st_size
        except FileNotFoundError:
            return False
        if size_bytes < self.max_bytes:
            return False
        if self.backups:
            for number in range(self.backups - 1, 0, -1):
                older = self._aside(name, number)
                if older.exists():
                    older.replace(self._aside(name, number + 1))
            self._copy(path, self._aside(name, 1))
        os.truncate(path, 0)
        return True

    def _aside(self, name: str, number: int) -> Path:
        return self.folder / f"{name}.log.{number}"

    def _copy(self, path: Path, target: Path) -> None:
        """Copy the end of a log, as much as one file may hold."""
        unfinished = target.with_name(f"{path.name}.new")
        unfinished.unlink(missing_ok=True)
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with path.open("rb") as source, os.fdopen(handle, "wb") as copy:
            source.seek(max(0, source.seek(0, os.SEEK_END) - self.max_bytes))
            # Bounded, should the service write faster than we copy.
            for _ in range(self.max_bytes // _BLOCK_BYTES + 2):
                block = source.read(_BLOCK_BYTES)
                if not block:
                    break
                copy.write(block)
        unfinished.replace(target)
