"""MCP as the official SDK's own client speaks it: both eras, over the bridge and over HTTP."""

import gzip
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

import harness
from harness import PROBE_BRIDGE, Sandbox

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

Transport = Callable[[Sandbox, str], AbstractAsyncContextManager[Client]]

HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.fixture(scope="module")
def served() -> Iterator[Sandbox]:
    """One daemon with HTTP on, for the whole module."""
    for box in harness.sandbox():
        box.configure("[http]\nenabled = true\nport = 0\n")
        box.start_daemon()
        yield box


@contextmanager
def otlp_receiver() -> Generator[tuple[str, list[bytes]]]:
    """A collector on loopback that keeps what it is sent."""
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_zipped = self.headers.get("Content-Encoding") == "gzip"
            received.append(gzip.decompress(body) if is_zipped else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def spans_of(body: bytes) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@asynccontextmanager
async def over_stdio(box: Sandbox, mode: str) -> AsyncGenerator[Client]:
    parameters = StdioServerParameters(
        command=PROBE_BRIDGE[0], args=PROBE_BRIDGE[1:], env=box.environ
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


@asynccontextmanager
async def over_http(box: Sandbox, mode: str, query: str = "") -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {box.http_token()}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(box.http_url() + query, http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize("transport", [over_stdio, over_http], ids=["stdio", "http"])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
async def test_sdk_client_lists_and_calls_in_every_era(
    served: Sandbox, transport: Transport, mode: str
) -> None:
    async with transport(served, mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == sorted(tool.name for tool in listed.tools)
        result = await client.call_tool("system.status", {"include": ["version"]})
        assert result.structured_content == {"version": "0.1.0"}
        with pytest.raises(MCPError) as refused:
            await client.call_tool("no.such", {})
        assert refused.value.error.code == types.INVALID_PARAMS
        assert refused.value.error.data["error"]["code"] == "not_found"


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_each_handshake_version_is_spoken_as_asked(served: Sandbox, version: str) -> None:
    with served.client() as client:
        assert client.handshake(version)["result"]["protocolVersion"] == version
        result = client.call("probe.echo", text="hello")["result"]
        assert "hello" in result["content"][0]["text"]


@pytest.mark.parametrize("name", ["claude-ai", "cursor-vscode"])
async def test_clients_that_refuse_dots_are_offered_underscores(served: Sandbox, name: str) -> None:
    with served.client() as client:
        client.request(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": name, "version": "1"},
            },
        )
        client.notify("notifications/initialized")
        names = {tool["name"] for tool in client.request("tools/list")["result"]["tools"]}
        assert "system_status" in names
        assert not any("." in tool for tool in names)
        assert "result" in client.call("system_status")
        assert "result" in client.call("system.status")


async def test_session_sees_only_the_toolsets_it_chose(served: Sandbox) -> None:
    with served.client([*PROBE_BRIDGE, "--toolsets", "operations"]) as client:
        client.handshake()
        tools = client.request("tools/list")["result"]["tools"]
        assert {tool["name"].split(".")[0] for tool in tools} == {"system"}


async def test_http_client_chooses_toolsets_in_the_address(served: Sandbox) -> None:
    async with over_http(served, "legacy", "?toolsets=operations") as client:
        tools = (await client.list_tools()).tools
        assert {tool.name.split(".")[0] for tool in tools} == {"system"}
    async with over_http(served, "legacy", "?toolsets=nope") as client:
        with pytest.raises(MCPError, match="Unknown toolset: nope"):
            await client.list_tools()


async def test_http_needs_a_token_a_local_host_and_a_local_origin(served: Sandbox) -> None:
    url = served.http_url()
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    good = {
        "Authorization": f"Bearer {served.http_token()}",
        "Accept": "application/json, text/event-stream",
    }
    async with httpx2.AsyncClient() as http:
        no_token = await http.post(url, json=body)
        bad_token = await http.post(url, json=body, headers=good | {"Authorization": "Bearer x"})
        bad_host = await http.post(url, json=body, headers=good | {"Host": "evil.example"})
        bad_origin = await http.post(
            url, json=body, headers=good | {"Origin": "http://evil.example"}
        )
        health = await http.get(url.replace("/mcp", "/health"))
    assert (no_token.status_code, bad_token.status_code) == (401, 401)
    assert no_token.json()["error"]["code"] == "forbidden"
    assert (bad_host.status_code, bad_origin.status_code) == (421, 403)
    assert health.json() == {"status": "ok"}
    assert (Path(served.home.http_token).stat().st_mode & 0o777) == 0o600


async def test_http_beyond_loopback_must_be_said_twice(box: Sandbox) -> None:
    box.configure('[http]\nenabled = true\nbind = "0.0.0.0"\n')
    done = box.run("up")
    assert done.returncode == 2
    assert "token_file" in done.stderr
    assert box.daemon_pid() is None


async def test_span_joins_the_trace_of_the_client(box: Sandbox) -> None:
    """DESIGN section 3: spans are exported only where an OTLP endpoint is configured."""
    with otlp_receiver() as (endpoint, received):
        box.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
        box.start_daemon()
        trace_id = "0af7651916cd43dd8448eb211c80319c"
        meta = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
        with box.client() as client:
            client.handshake()
            client.request("tools/call", {"name": "probe.echo", "arguments": {}, "_meta": meta})
        assert box.run("down").returncode == 0  # a daemon that stops sends what it has
        spans = [span for body in received for span in spans_of(body)]
    ours = [span for span in spans if span.name == "cortex.call"]
    assert [span.trace_id.hex() for span in ours] == [trace_id], box.log()
    attributes = {a.key: a.value.string_value for a in ours[0].attributes}
    assert attributes["cortex.tool"] == "probe.echo"
    assert attributes["cortex.code"] == "success"
