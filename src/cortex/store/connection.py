"""Opens a handle on ClickHouse, embedded or over HTTP. Blocks, so it runs in worker threads."""

import math
import os
import shutil
from datetime import UTC
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import clickhouse_connect
import psutil
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ProgrammingError

from cortex.errors import StoreUnavailable
from cortex.settings.models import ClickHouseSettings

Kind = Literal["embedded", "server"]

# The engine looks at its own memory 20 times a second unless told otherwise: 0.55 % of a core
# while idle, 0.05 % with this.
_EMBEDDED_OPTIONS = {"memory_worker_period_ms": 1000}
# Times are UTC whatever the zone of the machine; else a bound DateTime64 is off by its offset.
_SESSION = {"session_timezone": "UTC"}

# With less than this the engine cannot even write what it needs to start.
_LEAST_FREE_BYTES = 1024 * 1024


def kind_of(url: str) -> Kind:
    """Tell an embedded engine's URL from a server's."""
    return "embedded" if url.startswith("chdb://") else "server"


def address_of(url: str) -> str:
    """Write a URL without the credentials it may carry."""
    if kind_of(url) == "embedded":
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def connect(settings: ClickHouseSettings, *, timeout_s: float) -> Client:
    """Open one handle, with the settings' database as its default (which need not exist yet)."""
    if kind_of(settings.url) == "embedded":
        client = _connect_embedded(Path(settings.url.removeprefix("chdb://")))
    else:
        client = _connect_server(settings, timeout_s)
    # What the client took for the session's zone was read before the session was set to UTC.
    client.server_tz = UTC
    client.database = settings.database
    return client


def _connect_embedded(directory: Path) -> Client:
    _prepare(directory)
    try:
        return clickhouse_connect.get_client(
            interface="chdb",
            path=str(directory),
            chdb_options=_EMBEDDED_OPTIONS,
            settings=_SESSION,
            show_clickhouse_errors="scrub",
            tz_mode="aware",
        )
    except ProgrammingError as error:
        raise _not_started(directory) from error


def _prepare(directory: Path) -> None:
    if "?" in str(directory):
        raise StoreUnavailable(
            f"The embedded engine cannot use {directory}: it takes what follows a ? for options",
            hint="set [clickhouse] url to a path without ?",
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(directory, (error.strerror or str(error)).lower()) from error
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(directory, "permission denied")


def _unusable(directory: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The data directory {directory} cannot be used: {reason}",
        hint="set [clickhouse] url to a directory you can write to",
    )


def _not_started(directory: Path) -> StoreUnavailable:
    """Say why the engine did not start, which its exception does not."""
    holder = _holder(directory)
    if holder is not None:
        return StoreUnavailable(
            f"The data directory {directory} is in use by process {holder}",
            hint="one process holds an embedded engine: stop the other, or use a ClickHouse server",
        )
    if shutil.disk_usage(directory).free < _LEAST_FREE_BYTES:
        return StoreUnavailable(
            f"The embedded engine does not start on {directory}: its disk is full",
            hint="make room on the disk, then start again",
        )
    return StoreUnavailable(
        f"The embedded engine does not start on {directory}",
        hint="what it printed says why; restore the directory, or set [clickhouse] url to another",
    )


def _holder(directory: Path) -> int | None:
    """Find the live process that wrote its number into the engine's status file."""
    try:
        first_line = (directory / "status").read_text().partition("\n")[0]
        pid = int(first_line.removeprefix("PID:"))
    except (OSError, ValueError):
        return None
    return pid if pid != os.getpid() and psutil.pid_exists(pid) else None


def _connect_server(settings: ClickHouseSettings, timeout_s: float) -> Client:
    parts = urlsplit(settings.url)
    session: dict[str, Any] = _SESSION | {
        "async_insert": settings.async_insert,
        "wait_for_async_insert": settings.wait_for_async_insert,
    }
    if settings.cluster:
        # An insert through a distributed table is done when its shard has it, not when queued.
        session["distributed_foreground_insert"] = True
    return clickhouse_connect.get_client(
        interface=parts.scheme,
        host=parts.hostname,
        port=parts.port or (8443 if parts.scheme == "https" else 8123),
        proxy_path=parts.path,
        username=unquote(parts.username or "") or settings.username,
        password=unquote(parts.password or "") or settings.password.get_secret_value(),
        compress=False if settings.request_compression == "none" else settings.request_compression,
        connect_timeout=math.ceil(min(timeout_s, 10)),
        send_receive_timeout=math.ceil(timeout_s),
        autogenerate_session_id=False,
        dedicated_pool=True,
        client_name="cortex",
        settings=session,
        show_clickhouse_errors="scrub",
        tz_mode="aware",
    )
