"""The only map from an error of ours to JSON-RPC codes, HTTP statuses and exit codes."""

from typing import Any

from cortex.errors import CortexError
from cortex.gateway.spec import Failure

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

# Refused before or instead of running: a protocol error whatever the toolset.
_REFUSALS = frozenset({"validation_failed", "forbidden", "size_limit_exceeded", "not_found"})

EXIT_OK, EXIT_ERROR, EXIT_USAGE = 0, 1, 2


def error_object(error: CortexError) -> dict[str, Any]:
    """Return the one shape every error has, wherever it comes out."""
    return {"error": {"code": error.code, "message": error.message, "details": dict(error.details)}}


def jsonrpc_code(error: CortexError, failure: Failure) -> int | None:
    """Return the JSON-RPC code for an error, or None if it is a result with `isError`."""
    if error.code in _REFUSALS:
        return INVALID_PARAMS
    if error.code == "rate_limited" or failure == "result":
        return None
    return INTERNAL_ERROR


def exit_code(error: CortexError) -> int:
    """Return what a command exits with: bad usage of the command line or its files is 2."""
    return EXIT_USAGE if error.code == "validation_failed" else EXIT_ERROR
