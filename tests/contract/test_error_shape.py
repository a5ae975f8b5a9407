"""One error, one shape: the same object out of MCP stdio, MCP over HTTP and `cortex call`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import httpx2
import pytest

import harness
from harness import Sandbox

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Case:
    """A call that goes wrong, and how it must come out."""

    tool: str
    arguments: Any
    code: str
    jsonrpc: int | None  # None: a result with isError


CASES = {
    "unknown tool": Case("no.such", {}, "not_found", -32602),
    "bad value": Case("probe.echo", {"wait_s": "soon"}, "validation_failed", -32602),
    "unknown argument": Case("probe.echo", {"nope": 1}, "validation_failed", -32602),
    "too large": Case("probe.echo", {"text": "x" * 1_100_000}, "size_limit_exceeded", -32602),
    "changes are off": Case("probe.write", {}, "forbidden", -32602),
    "failed, as a result": Case("probe.fail", {}, "internal_error", None),
    "failed, as a protocol error": Case("probe.strict", {}, "internal_error", -32603),
    "took too long": Case("probe.brief", {"wait_s": 9}, "unavailable", None),
    "answer too large": Case(
        "probe.grow", {"size_bytes": 9_000_000}, "size_limit_exceeded", -32602
    ),
}


@pytest.fixture(scope="module")
def served() -> Iterator[Sandbox]:
    for box in harness.sandbox():
        box.configure("[http]\nenabled = true\nport = 0\n")
        box.start_daemon()
        yield box


def by_stdio(box: Sandbox, case: Case) -> dict[str, Any]:
    with box.client() as client:
        client.handshake()
        return client.request("tools/call", {"name": case.tool, "arguments": case.arguments})


def by_http(box: Sandbox, case: Case) -> dict[str, Any]:
    headers = {
        "Authorization": f"Bearer {box.http_token()}",
        "Accept": "application/json, text/event-stream",
    }

    def post(http: httpx2.Client, message: dict[str, Any]) -> httpx2.Response:
        return http.post(box.http_url(), json={"jsonrpc": "2.0", **message})

    with httpx2.Client(headers=headers, timeout=30) as http:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        opened = post(http, {"id": 1, "method": "initialize", "params": params})
        http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        post(http, {"method": "notifications/initialized"})
        call = {"name": case.tool, "arguments": case.arguments}
        answer = post(http, {"id": 2, "method": "tools/call", "params": call})
        data = next(line for line in answer.text.splitlines() if line.startswith("data: {"))
        return cast("dict[str, Any]", json.loads(data.removeprefix("data: ")))


def by_command(box: Sandbox, case: Case) -> dict[str, Any]:
    done = box.run("call", case.tool, json.dumps(case.arguments))
    assert done.returncode == 1, done.stderr
    printed = json.loads(done.stdout)
    return printed if "error" in printed else {"result": printed}


def outcome(response: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Return the JSON-RPC code, if it is a protocol error, and the error object."""
    if "error" in response:
        return response["error"]["code"], response["error"]["data"]["error"]
    assert response["result"]["isError"] is True
    assert response["result"]["content"][0]["text"]
    return None, response["result"]["structuredContent"]["error"]


@pytest.mark.parametrize("name", CASES)
def test_an_error_is_the_same_whichever_way_it_comes_out(served: Sandbox, name: str) -> None:
    case = CASES[name]
    ways = [by_stdio, by_http] if name == "too large" else [by_stdio, by_http, by_command]
    outcomes = [outcome(way(served, case)) for way in ways]
    for jsonrpc, error in outcomes:
        assert set(error) == {"code", "message", "details"}
        assert (jsonrpc, error["code"]) == (case.jsonrpc, case.code)
        assert "swordfish" not in json.dumps(error)
        assert "Traceback" not in json.dumps(error)
        error["details"].pop("correlationId", None)
    assert all(other == outcomes[0] for other in outcomes)


def test_too_many_calls_are_refused_the_same_way(box: Sandbox) -> None:
    box.configure("[limits]\ncalls = 3\n[http]\nenabled = true\nport = 0\n")
    box.start_daemon()
    case = Case("probe.echo", {}, "rate_limited", None)
    for way in (by_stdio, by_http):
        for _ in range(3):
            assert "error" not in way(box, case)
        jsonrpc, error = outcome(way(box, case))
        assert (jsonrpc, error["code"]) == (None, "rate_limited")
        assert 0 < error["details"]["retryAfterMs"] <= 10_000
    # The same user at the command line is the same principal as over stdio.
    assert outcome(by_command(box, case))[1]["code"] == "rate_limited"


@pytest.mark.parametrize("arguments", [[1, 2], "text", 7])
def test_arguments_that_are_no_object_get_the_shape_and_a_record(
    served: Sandbox, arguments: Any
) -> None:
    before = served.status()["audit"]["records"]
    case = Case("probe.echo", arguments, "validation_failed", -32602)
    jsonrpc, error = outcome(by_stdio(served, case))
    assert (jsonrpc, error["code"]) == (-32602, "validation_failed")
    assert served.status()["audit"]["records"] == before + 1
