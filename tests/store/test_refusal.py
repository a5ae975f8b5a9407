import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from cortex.errors import DeadlineExceeded, StoreError, StoreUnavailable
from cortex.store.refusal import refusal

AT = "http://127.0.0.1:8123"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            DatabaseError("Code: 159. DB::Exception: Timeout exceeded", code=159),
            DeadlineExceeded,
            f"A statement on ClickHouse at {AT} was stopped after 2 s",
        ),
        (
            DatabaseError("Code: 243. DB::Exception: Cannot reserve 1 MiB", code=243),
            StoreUnavailable,
            f"ClickHouse at {AT} is out of disk space",
        ),
        (
            DatabaseError("Code: 75. DB::Exception: Cannot write, errno: 28", code=75),
            StoreUnavailable,
            f"ClickHouse at {AT} is out of disk space",
        ),
        (
            OperationalError("HTTP driver received HTTP status 503"),
            StoreUnavailable,
            f"ClickHouse at {AT} answers with HTTP status 503, not as ClickHouse does",
        ),
        (
            OperationalError("cut off"),
            StoreUnavailable,
            f"ClickHouse at {AT} cannot be reached: cut off",
        ),
        (
            DatabaseError("Code: 1. DB::Exception: " + "x" * 1000, code=1),
            StoreError,
            "ClickHouse refused a statement: " + "x" * 300 + "…",
        ),
        (
            DatabaseError(
                "Code: 53. DB::Exception: Type mismatch: In scope SELECT 'secret'. (TYPE_MISMATCH)",
                code=53,
            ),
            StoreError,
            "ClickHouse refused a statement: Type mismatch",
        ),
    ],
)
def test_a_failure_becomes_one_of_our_errors(
    error: Exception, kind: type[Exception], message: str
) -> None:
    refused = refusal(error, address=AT, timeout_s=2)
    assert type(refused) is kind
    assert refused.message == message


def test_a_failure_names_what_the_system_said_not_what_wrapped_it() -> None:
    error = OperationalError("Error executing HTTP request")
    error.__cause__ = RuntimeError("pool")
    error.__cause__.__cause__ = ConnectionResetError(104, "Connection reset by peer")
    refused = refusal(error, address=AT, timeout_s=2)
    assert refused.message == f"ClickHouse at {AT} cannot be reached: connection reset by peer"
