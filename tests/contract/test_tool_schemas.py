import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from mcp.client import Client

import goldens
from cortex.edge.mcp_server import McpServer
from cortex.edge.session import Session
from fakes import FakeClock, every_tool, open_gateway


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema inside a schema."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from nodes(item)
    elif isinstance(value, dict):
        node = cast("dict[str, Any]", value)
        yield node
        for key, item in node.items():
            # The names of properties are not keywords.
            for part in item.values() if key == "properties" else [item]:
                yield from nodes(part)


def schemas() -> list[dict[str, Any]]:
    tools = goldens.published_tools()
    return [schema for tool in tools for schema in (tool.input_schema, tool.output_schema or {})]


def test_the_published_tools_are_those_that_were_agreed() -> None:
    """Agents read these: a change here changes what every one of them is told."""
    golden = (goldens.FOLDER / "tools.json").read_text("utf-8")
    assert json.loads(goldens.tools()) == json.loads(golden)


def test_nothing_that_only_costs_tokens_is_left_in_a_schema() -> None:
    for schema in schemas():
        for node in nodes(schema):
            assert not node.keys() & {"$ref", "$defs", "title"}


def test_every_tool_takes_an_object_with_described_arguments_and_no_others() -> None:
    for tool in goldens.published_tools():
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        for name, argument in tool.input_schema.get("properties", {}).items():
            assert argument.get("description"), f"{tool.name}: {name} is not described"


def test_tools_are_sorted_and_say_whether_they_change_something() -> None:
    tools = goldens.published_tools()
    assert [tool.name for tool in tools] == sorted(tool.name for tool in tools)
    for spec, tool in zip(every_tool(FakeClock()), tools, strict=True):
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is not spec.policy.mutates
        assert tool.annotations.destructive_hint is spec.policy.destroys


def test_the_whole_list_costs_an_agent_few_tokens() -> None:
    """Six thousand tokens is the promise for all four toolsets; four bytes are about one token."""
    listed = [
        tool.model_dump(by_alias=True, exclude_none=True) for tool in goldens.published_tools()
    ]
    assert len(json.dumps(listed)) / 4 < 6000


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_clients_of_both_eras_are_told_the_same_every_time(tmp_path: Path, mode: str) -> None:
    clock = FakeClock()
    registry = every_tool(clock)
    async with open_gateway(tmp_path, registry, clock=clock) as gateway:
        server = McpServer(
            gateway.pipeline,
            tool_names="dots",
            http_session=lambda _request: Session(
                session_id="s", principal="p", transport="http", opened_at=clock.now()
            ),
        )
        async with Client(server.sdk, mode=mode) as client:
            first = (await client.list_tools()).tools
            second = (await client.list_tools()).tools
    published = [tool.model_dump() for tool in goldens.published_tools()]
    assert [tool.model_dump() for tool in first] == published
    assert [tool.model_dump() for tool in second] == published
