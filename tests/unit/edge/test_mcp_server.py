"""The MCP side, through the SDK's own client in both eras."""

import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from cortex.edge.mcp_server import McpServer, ToolNames
from cortex.edge.session import Session
from cortex.errors import Unavailable
from cortex.gateway.spec import RateLimit, ToolCall
from fakes import READS, WRITES, FakeClock, Gateway, Said, Say, open_gateway, registry_of, say

pytestmark = pytest.mark.anyio

MODES = ["legacy", "2026-07-28"]
STRICT = replace(READS, failure="protocol")
ONCE = replace(STRICT, limit=RateLimit(1, 10))

Connect = Callable[..., AbstractAsyncContextManager[tuple[Client, Gateway]]]


async def failing(_params: Say, _call: ToolCall) -> Said:
    raise RuntimeError("the secret is 4711")


async def away(_params: Say, _call: ToolCall) -> Said:
    raise Unavailable("the store is away", hint="start it")


TOOLS = registry_of(
    ("t.say", say, READS),
    ("t.write", say, WRITES),
    ("t.fail", failing, READS),
    ("t.away", away, READS),
    ("t.fail_strictly", failing, STRICT),
    ("t.once", say, ONCE),
)


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    @contextlib.asynccontextmanager
    async def connect(
        *, name: str = "test", names: ToolNames = "auto", mode: str = "legacy", **session: Any
    ) -> AsyncGenerator[tuple[Client, Gateway]]:
        opened = Session(
            session_id="s",
            principal="http:p",
            transport="http",
            opened_at=FakeClock().now(),
            **session,
        )
        async with open_gateway(tmp_path, TOOLS) as gateway:
            server = McpServer(
                gateway.pipeline, tool_names=names, http_session=lambda _request: opened
            )
            info = types.Implementation(name=name, version="7")
            async with Client(server.sdk, mode=mode, client_info=info) as client:
                yield client, gateway

    return connect


async def listed(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("names", "client", "has_dots"),
    [
        ("auto", "claude-code", True),
        ("auto", "codex-mcp-client", True),
        ("auto", "opencode", False),
        ("auto", "Cline", False),
        ("auto", "cursor-vscode", False),
        ("dots", "opencode", True),
        ("underscores", "claude-code", False),
    ],
)
async def test_clients_known_to_refuse_dots_are_told_underscores(
    connect: Connect, mode: str, names: ToolNames, client: str, has_dots: bool
) -> None:
    async with connect(name=client, names=names, mode=mode) as (session, _):
        assert [name.startswith("t.") for name in await listed(session)] == [has_dots] * len(TOOLS)


@pytest.mark.parametrize("mode", MODES)
async def test_both_spellings_are_accepted_whatever_was_published(
    connect: Connect, mode: str
) -> None:
    async with connect(names="underscores", mode=mode) as (client, _):
        for name in ("t.say", "t_say"):
            result = await client.call_tool(name, {"text": "hello"})
            assert result.structured_content == {"text": "hello"}


async def test_only_the_chosen_toolsets_are_listed(connect: Connect) -> None:
    async with connect(toolsets=frozenset({"test"})) as (client, _):
        assert len(await listed(client)) == len(TOOLS)
    async with connect(toolsets=frozenset({"other"})) as (client, _):
        assert await listed(client) == []


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_has_text_data_and_how_it_came_about(connect: Connect, mode: str) -> None:
    async with connect(mode=mode) as (client, gateway):
        result = await client.call_tool("t.say", {"text": "hello"})
        assert not result.is_error
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        assert content.text == '{\n  "text": "hello"\n}'
        assert result.meta is not None
        ((_, body),) = await gateway.new_records()
        assert result.meta["cortex/callId"] == body["call_id"]
        assert result.meta["cortex/cached"] is False
        assert (body["client"], body["principal"]) == ("test 7", "http:p")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("tool", "arguments", "codes"),
    [
        ("t.say", {"times": 99}, (-32602, "validation_failed")),
        ("t.say", {"nope": 1}, (-32602, "validation_failed")),
        ("t.say", {"text": "x" * 20_000}, (-32602, "size_limit_exceeded")),
        ("t.write", {}, (-32602, "forbidden")),
        ("t.nope", {}, (-32602, "not_found")),
        ("t.fail_strictly", {}, (-32603, "internal_error")),
    ],
)
async def test_a_refusal_is_a_protocol_error_with_the_one_shape(
    connect: Connect, mode: str, tool: str, arguments: dict[str, Any], codes: tuple[int, str]
) -> None:
    json_code, code = codes
    async with connect(mode=mode) as (client, gateway):
        with pytest.raises(MCPError) as caught:
            await client.call_tool(tool, arguments)
        assert caught.value.error.code == json_code
        error = caught.value.error.data["error"]
        assert set(error) == {"code", "message", "details"}
        assert error["code"] == code
        assert "4711" not in str(caught.value.error)
        ((_, body),) = await gateway.new_records()
        assert body["code"] == code


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("tool", "code"), [("t.fail", "internal_error"), ("t.away", "unavailable")]
)
async def test_a_failure_is_a_result_where_its_tool_says_so(
    connect: Connect, mode: str, tool: str, code: str
) -> None:
    async with connect(mode=mode) as (client, _):
        result = await client.call_tool(tool, {})
        assert result.is_error
        assert result.structured_content is not None
        assert result.structured_content["error"]["code"] == code
        assert "4711" not in result.model_dump_json()


async def test_too_many_calls_are_a_result_whatever_the_tool_says(connect: Connect) -> None:
    async with connect() as (client, _):
        await client.call_tool("t.once", {})
        result = await client.call_tool("t.once", {})
        assert result.is_error
        assert result.structured_content is not None
        assert result.structured_content["error"]["code"] == "rate_limited"
        assert result.structured_content["error"]["details"]["retryAfterMs"] == 10_001


async def test_the_switch_of_the_session_opens_changes(connect: Connect) -> None:
    async with connect(allow_mutations=True) as (client, gateway):
        await client.call_tool("t.write", {"text": "x"})
        assert [kind for kind, _ in await gateway.new_records()] == ["intent", "outcome"]
