import pytest

import goldens
from cortex.edge.wire import error_object, jsonrpc_code
from cortex.errors import (
    CortexError,
    DeadlineExceeded,
    GateClosed,
    InternalError,
    InvalidParams,
    NotFound,
    RateLimited,
    SizeLimitExceeded,
    StoreUnavailable,
    Unavailable,
)
from cortex.gateway.spec import Failure

# The table of section 3 of the design, row by row: the code, then what becomes of it where
# failure is 'result' (conversations, operations) and where it is 'protocol' (code, memory).
TABLE = [
    (InvalidParams("m"), "validation_failed", -32602, -32602),
    (GateClosed("t", "g", reason="r", hint="h"), "forbidden", -32602, -32602),
    (SizeLimitExceeded("m", size_bytes=2, max_bytes=1), "size_limit_exceeded", -32602, -32602),
    (NotFound("tool", "t"), "not_found", -32602, -32602),
    (RateLimited("t", calls=1, window_s=1, retry_after_ms=1), "rate_limited", None, None),
    (InternalError("id"), "internal_error", None, -32603),
    (DeadlineExceeded("t", timeout_s=1), "unavailable", None, -32603),
    (Unavailable("m"), "unavailable", None, -32603),
    (StoreUnavailable("m"), "unavailable", None, -32603),
]


def test_errors_and_codes_are_those_that_were_agreed() -> None:
    """Callers act on codes: a change here is one to tell them of, in CHANGELOG.md."""
    golden = (goldens.FOLDER / "error_codes.txt").read_text("utf-8")
    assert goldens.error_codes().splitlines() == golden.splitlines()


def test_the_golden_files_are_fresh() -> None:
    assert goldens.stale() == []


@pytest.mark.parametrize(("error", "code", "as_result", "as_protocol"), TABLE)
def test_the_wire_is_that_of_the_design(
    error: CortexError, code: str, as_result: int | None, as_protocol: int | None
) -> None:
    failures: tuple[Failure, ...] = ("result", "protocol")
    assert error.code == code
    assert [jsonrpc_code(error, failure) for failure in failures] == [as_result, as_protocol]


@pytest.mark.parametrize("error", [row[0] for row in TABLE])
def test_every_error_has_the_one_shape(error: CortexError) -> None:
    assert error_object(error) == {
        "error": {"code": error.code, "message": error.message, "details": error.details}
    }


@pytest.mark.parametrize("error", [row[0] for row in TABLE])
def test_the_shape_is_a_copy(error: CortexError) -> None:
    error_object(error)["error"]["details"]["more"] = 1
    assert "more" not in error.details
