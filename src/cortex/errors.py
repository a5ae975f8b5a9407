"""The errors of Cortex, each with its stable code. Imports nothing of ours.

Constructors take fields and write the message; only `edge/wire.py` and `cli/render.py` translate.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class CortexError(Exception):
    """Something a caller or an operator can act on: a code, one line, and what would help."""

    code: ClassVar[str] = "internal_error"
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, hint: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, object] = dict(details or {})
        if hint:
            self.details.setdefault("hint", hint)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InternalError(CortexError):
    """A fault of ours; what happened is in the daemon's log under the correlation id."""

    def __init__(self, correlation_id: str) -> None:
        super().__init__(
            "The tool failed; the daemon's log has the reason",
            details={"correlationId": correlation_id},
        )


class InvalidParams(CortexError):
    """Arguments that do not decode or validate; `issues` says which field and what is accepted."""

    code = "validation_failed"

    def __init__(self, message: str, *, issues: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message, details={"issues": [dict(i) for i in issues]} if issues else None)


class GateClosed(CortexError):
    """Refused by policy: a gate, a review, or the mutation switch."""

    code = "forbidden"

    def __init__(self, tool: str, gate: str, *, reason: str, hint: str) -> None:
        super().__init__(
            f"{tool} is not allowed: {reason}", hint=hint, details={"tool": tool, "gate": gate}
        )


class SizeLimitExceeded(CortexError):
    """A payload over its size limit."""

    code = "size_limit_exceeded"

    def __init__(self, what: str, *, size_bytes: int, max_bytes: int) -> None:
        super().__init__(
            f"{what} is {size_bytes} bytes; at most {max_bytes} are accepted",
            details={"sizeBytes": size_bytes, "maxBytes": max_bytes},
        )


class NotFound(CortexError):
    """What was named does not exist."""

    code = "not_found"

    def __init__(self, kind: str, name: str, *, known: Sequence[str] = ()) -> None:
        super().__init__(
            f"Unknown {kind}: {name}",
            hint=f"there is {', '.join(known)}" if known else "",
            details={"kind": kind, "name": name, **({"known": list(known)} if known else {})},
        )


class RateLimited(CortexError):
    """Too many calls; `retryAfterMs` says when the next one is let through."""

    code = "rate_limited"
    retryable = True

    def __init__(self, tool: str, *, calls: int, window_s: float, retry_after_ms: int) -> None:
        super().__init__(
            f"Too many calls of {tool}: at most {calls} in {window_s:g} s",
            details={"tool": tool, "retryAfterMs": retry_after_ms},
        )


class Conflict(CortexError):
    """The state changed under the caller, or forbids what was asked."""

    code = "conflict"


class Unavailable(CortexError):
    """Something Cortex stands on is away; the same call may work later."""

    code = "unavailable"
    retryable = True


class DeadlineExceeded(Unavailable):
    """The work was stopped because it took longer than it may."""

    def __init__(self, what: str, *, timeout_s: float) -> None:
        super().__init__(
            f"{what} was stopped after {timeout_s:g} s",
            details={"timeoutMs": round(timeout_s * 1000)},
        )


class StoreUnavailable(Unavailable):
    """ClickHouse is away, slow, or refuses us."""


class StoreError(CortexError):
    """ClickHouse refused a statement of ours: a fault of ours, or of its data."""


class SchemaMismatch(CortexError):
    """The database was made by a newer Cortex, or its migrations were changed."""

    code = "conflict"


class SettingsError(CortexError):
    """A configuration that cannot be used: file, key, and what would be right."""

    code = "validation_failed"


class HomeError(CortexError):
    """$CORTEX_HOME cannot be used as it is."""

    code = "unavailable"


class ToolDefinitionError(CortexError):
    """A tool declared wrongly: the daemon does not start."""
