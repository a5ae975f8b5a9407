"""What went wrong in ClickHouse or on the way to it, as one of our errors: one line, no secrets."""

import re
import tempfile

from clickhouse_connect.driver.exceptions import Error, OperationalError
from urllib3.exceptions import HTTPError

from cortex.errors import CortexError, DeadlineExceeded, StoreError, StoreUnavailable

_TIMEOUT_EXCEEDED = 159

# ClickHouse error codes that speak of its state and not of our statement: what it does, what helps.
_AWAY: dict[int, tuple[str, str]] = {
    81: ("has lost the database", "restart Cortex, which creates it"),
    202: ("is too busy", "try again later"),
    209: ("lost its network", "try again later"),
    210: ("lost its network", "try again later"),
    225: ("has no Keeper", "check the cluster"),
    241: ("is out of memory", "try again later, or give it more memory"),
    242: ("is read-only", "check the cluster's Keeper"),
    243: ("is out of disk space", "free some space"),
    279: ("cannot reach its cluster", "check the cluster"),
    319: ("lost its Keeper during an insert", "try again later"),
    497: ("denies access", "grant [clickhouse] username the right, or set another user"),
    516: ("refuses the user or password", "check [clickhouse] username and password"),
    999: ("has lost its Keeper", "check the cluster"),
}

_MAX_CHARS = 300
_NO_SPACE = re.compile(r"No space left on device|errno: 28")
_HTTP_STATUS = re.compile(r"HTTP status (\d+)")
# From here on an error repeats the statement, with the bound values in it, or the grammar.
_TAIL = re.compile(
    r"[.:,]?\s+(?:In scope |While |while executing |Expected one of: |Stack trace:|Received from )"
)
_POSITION = re.compile(r"(failed at position \d+).*", re.DOTALL)


def refusal(error: Exception, *, address: str, timeout_s: float) -> CortexError:
    """Translate what the client library raised."""
    code = error.code if isinstance(error, Error) else None
    if code == _TIMEOUT_EXCEEDED:
        return deadline_exceeded(address, timeout_s)
    if code is not None:
        return _said_by_clickhouse(error, code, address)
    return _met_on_the_way(error, address)


def deadline_exceeded(address: str, timeout_s: float) -> DeadlineExceeded:
    """Say that a statement was stopped."""
    return DeadlineExceeded(f"A statement on ClickHouse at {address}", timeout_s=timeout_s)


def _said_by_clickhouse(error: Exception, code: int, address: str) -> CortexError:
    away = _AWAY[243] if _NO_SPACE.search(str(error)) else _AWAY.get(code)
    if away is None:
        return _refused_statement(error, code)
    what, hint = away
    return _unavailable(address, what, hint, code)


def _met_on_the_way(error: Exception, address: str) -> CortexError:
    status = _HTTP_STATUS.search(str(error))
    if status:
        what = f"answers with HTTP status {status[1]}, not as ClickHouse does"
        return _unavailable(address, what, "check [clickhouse] url")
    if isinstance(error, OperationalError | HTTPError):
        what = f"cannot be reached: {_reason(error)}"
        return _unavailable(address, what, "start it, or set [clickhouse] url")
    if isinstance(error, OSError):
        # The embedded engine takes rows from a file in the temporary directory.
        what = f"cannot take rows: {_reason(error)}"
        return _unavailable(address, what, f"check the disk of {tempfile.gettempdir()}")
    return _refused_statement(error, None)


def _refused_statement(error: Exception, code: int | None) -> StoreError:
    name = error.name if isinstance(error, Error) else None
    known = {"clickhouseCode": code, "clickhouseName": name}
    return StoreError(
        f"ClickHouse refused a statement: {_one_line(str(error))}",
        details={key: value for key, value in known.items() if value is not None},
    )


def _unavailable(address: str, what: str, hint: str, code: int | None = None) -> StoreUnavailable:
    details = None if code is None else {"clickhouseCode": code}
    return StoreUnavailable(f"ClickHouse at {address} {what}", hint=hint, details=details)


def _reason(error: BaseException) -> str:
    """Find what the operating system said, deepest first."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    for link in reversed(chain):
        if isinstance(link, TimeoutError):
            return "no answer in time"
        if isinstance(link, OSError) and link.strerror:
            return link.strerror.lower()
    return _one_line(str(chain[-1]))


def _one_line(message: str) -> str:
    """Keep what ClickHouse says of an error, without the statement, the trace and the version."""
    said = message.rpartition("DB::Exception: ")[2]
    short = _POSITION.sub(r"\1", _TAIL.split(said, maxsplit=1)[0])
    text = " ".join(short.split()).rstrip(" .:")
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
