import pytest

from cortex.edge.wire import exit_code, jsonrpc_code
from cortex.errors import Conflict, CortexError, InvalidParams, SettingsError, Unavailable


def test_a_failure_is_a_result_or_a_protocol_error_as_its_tool_says() -> None:
    assert jsonrpc_code(Conflict("m"), "result") is None
    assert jsonrpc_code(Conflict("m"), "protocol") == -32603


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidParams("m"), 2), (SettingsError("m"), 2), (Unavailable("m"), 1), (Conflict("m"), 1)],
)
def test_a_command_used_wrongly_exits_with_two(error: CortexError, code: int) -> None:
    assert exit_code(error) == code
