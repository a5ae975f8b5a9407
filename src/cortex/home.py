"""Where everything of Cortex lives on this machine: names only, nothing is opened or made here.

The bridge loads this module in every agent session, so it imports `os` and `sys` alone.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What the seeds let a session say through its environment; it holds for that session only.
SESSION_VARIABLES = (
    "CORTEX_MCP_ALLOW_MUTATIONS",
    "CORTEX_CHUNKS_DIR",
    "CORTEX_EMBEDDING_ENDPOINT",
    "CORTEX_MCP_AUTO_COMMIT",
)

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
MAX_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


class Home:
    """The files of one home, by name."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(os.path.expanduser(root))

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Home:
        """Find the home: `$CORTEX_HOME`, else the platform's data directory."""
        chosen = environ.get("CORTEX_HOME")
        if chosen:
            return cls(chosen)
        user = environ.get("HOME") or os.path.expanduser("~")
        if sys.platform == "darwin":
            return cls(os.path.join(user, "Library", "Application Support", "cortex"))
        data = environ.get("XDG_DATA_HOME") or os.path.join(user, ".local", "share")
        return cls(os.path.join(data, "cortex"))

    def __str__(self) -> str:
        return self.root

    @property
    def run(self) -> str:
        """Folder of what holds only while the daemon runs."""
        return os.path.join(self.root, "run")

    @property
    def logs(self) -> str:
        """Folder of the rotated logs."""
        return os.path.join(self.root, "logs")

    @property
    def temporary(self) -> str:
        """Folder of files that live as long as a statement."""
        return os.path.join(self.run, "tmp")

    @property
    def socket(self) -> str:
        """The daemon's unix socket."""
        return os.path.join(self.run, "cortexd.sock")

    @property
    def port_file(self) -> str:
        """Port and secret of the daemon where there are no unix sockets."""
        return os.path.join(self.run, "cortexd.port")

    @property
    def lock(self) -> str:
        """Locked by the kernel for as long as the daemon lives."""
        return os.path.join(self.run, "cortexd.lock")

    @property
    def pid(self) -> str:
        """The daemon's process id, for people; the lock is what counts."""
        return os.path.join(self.run, "cortexd.pid")

    @property
    def start_lock(self) -> str:
        """Locked by whoever is starting the daemon, so that many bridges start one."""
        return os.path.join(self.run, "start.lock")

    @property
    def start_error(self) -> str:
        """Why the last start failed, for those who waited for it."""
        return os.path.join(self.run, "start.error")

    @property
    def log_file(self) -> str:
        """The daemon's own log."""
        return os.path.join(self.logs, "cortexd.log")

    @property
    def crash_file(self) -> str:
        """What the daemon's process wrote to stderr, made anew at each start."""
        return os.path.join(self.logs, "cortexd.stderr")

    @property
    def audit_db(self) -> str:
        """The hash-chained audit ledger."""
        return os.path.join(self.root, "audit.db")

    @property
    def state_db(self) -> str:
        """Memories and their ledger."""
        return os.path.join(self.root, "state.db")

    @property
    def limits_db(self) -> str:
        """The calls of the last seconds, for the rate limits."""
        return os.path.join(self.root, "limits.db")

    @property
    def http_token(self) -> str:
        """The tokens that open the HTTP endpoint, unless the settings name another file."""
        return os.path.join(self.root, "http-token")

    @property
    def clickhouse(self) -> str:
        """Data of the embedded ClickHouse."""
        return os.path.join(self.root, "clickhouse")
