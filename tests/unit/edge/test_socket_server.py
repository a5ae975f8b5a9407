"""What a session may and may not be, by what its hello says."""

from typing import Any, cast

import orjson
import pytest

from cortex.edge.hello import Hello, read_hello
from cortex.edge.relay import PROTOCOL
from cortex.edge.socket_server import SocketServer, Welcome
from cortex.errors import Conflict, InvalidParams, NotFound
from fakes import CountedIds, FakeClock

# The server makes cancel scopes when it is built: it wants a running loop.
pytestmark = pytest.mark.anyio


def server(*, allow_mutations: bool = False, max_sessions: int = 1) -> SocketServer:
    welcome = Welcome(
        pid=1,
        version="1",
        config="/etc/cortex.toml",
        read_only=(),
        toolsets=frozenset({"operations", "memory"}),
        max_sessions=max_sessions,
        allow_mutations=allow_mutations,
    )
    nothing = cast("Any", None)
    return SocketServer(nothing, nothing, {}, welcome, clock=FakeClock(), ids=CountedIds())


def hello(said: dict[str, Any]) -> Hello:
    return read_hello(orjson.dumps({"cortex": {"protocol": PROTOCOL, **said}}))


@pytest.mark.parametrize("operator", [True, False])
@pytest.mark.parametrize(
    ("text", "is_open"),
    [("true", True), ("TRUE", False), ("1", False), ("yes", False), (" true", False), ("", False)],
)
async def test_the_switch_of_a_session_is_open_for_exactly_one_word(
    text: str, is_open: bool, operator: bool
) -> None:
    said = hello({"environ": {"CORTEX_MCP_ALLOW_MUTATIONS": text}})
    session = server(allow_mutations=operator)._session("uid:1", said)
    assert session.allow_mutations is is_open
    assert session.caller("c").allow_mutations is is_open


@pytest.mark.parametrize("operator", [True, False])
async def test_a_session_that_says_nothing_has_what_the_operator_gives(operator: bool) -> None:
    session = server(allow_mutations=operator)._session("uid:1", hello({"environ": {}}))
    assert session.allow_mutations is operator


async def test_only_the_variables_of_a_session_are_kept() -> None:
    environ = {"CORTEX_CHUNKS_DIR": "/c", "PATH": "/bin"}
    said = hello({"environ": environ, "cwd": "/w", "pid": 7})
    caller = server()._session("uid:1", said).caller("codex 1")
    assert caller.environ == {"CORTEX_CHUNKS_DIR": "/c"}
    assert (caller.principal, caller.cwd, caller.client) == ("uid:1", "/w", "codex 1")
    assert (caller.transport, caller.session_id) == ("stdio", "id-1")


async def test_a_person_at_the_command_line_is_known_as_such() -> None:
    assert server()._session("uid:1", hello({"environ": {}, "role": "cli"})).transport == "cli"


async def test_an_unknown_toolset_another_configuration_and_one_too_many_are_refused() -> None:
    with pytest.raises(NotFound, match="Unknown toolset: weather"):
        server()._session("uid:1", hello({"environ": {}, "toolsets": ["memory", "weather"]}))
    with pytest.raises(Conflict, match=r"runs with /etc/cortex\.toml, not with /home/x"):
        server()._session("uid:1", hello({"environ": {}, "config": "/home/x"}))
    with pytest.raises(Conflict, match="0 sessions are open"):
        server(max_sessions=0)._session("uid:1", hello({"environ": {}}))


@pytest.mark.parametrize(
    "said", [{"environ": []}, {"toolsets": 5}, {"toolsets": [[]]}, {"protocol": "x"}, {"cwd": 1}]
)
async def test_a_hello_of_the_wrong_shape_is_refused_as_such(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams, match="must say hello"):
        hello(said)


@pytest.mark.parametrize("line", [b"", b"not json", b"[]", b'{"jsonrpc":"2.0"}', b'{"cortex":1}'])
async def test_a_first_line_that_is_no_hello_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidParams, match="must say hello"):
        read_hello(line)


async def test_a_bridge_of_another_protocol_is_told_what_to_do() -> None:
    with pytest.raises(Conflict, match="version 99"):
        hello({"protocol": 99})
