"""The rival: one MCP server per session, built on the official SDK, with one tool."""

from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def _list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])


async def _main() -> None:
    server: Server[Any] = Server("plain", on_list_tools=_list_tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(_main)
