import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from cortex.edge.http import BearerGate, http_session, open_endpoint, read_tokens
from cortex.errors import NotFound, SettingsError, Unavailable
from cortex.settings.models import HttpSettings
from fakes import FakeClock

TOKEN = "0123456789abcdef"
OTHER = "fedcba9876543210"


def token_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_first_start_makes_a_token_only_the_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "http-token"
    tokens = read_tokens(None, str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    ((token, name),) = tokens.items()
    assert name == "local"
    assert len(token) >= 32
    assert read_tokens(None, str(path)) == tokens


def test_a_file_may_hold_several_names_comments_and_empty_lines(tmp_path: Path) -> None:
    path = token_file(tmp_path / "t", f"# ours\n\nlaptop {TOKEN}\n  ci\t{OTHER}  \n")
    assert read_tokens(path, "unused") == {TOKEN: "laptop", OTHER: "ci"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{TOKEN}\n", "line 1 must be NAME TOKEN"),
        ("laptop short\n", "at least 16 characters"),
        (f"# c\nlaptop {TOKEN} extra\n", "line 2 must be NAME TOKEN"),
        ("\n# nothing\n", "has no token"),
    ],
)
def test_a_file_that_says_nothing_clear_is_refused_without_repeating_it(
    tmp_path: Path, text: str, says: str
) -> None:
    path = token_file(tmp_path / "t", text)
    with pytest.raises(SettingsError) as caught:
        read_tokens(path, "unused")
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SettingsError, match="chmod 600"):
        read_tokens(token_file(tmp_path / "t", f"laptop {TOKEN}\n", mode), "unused")


def test_a_chosen_file_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary"):
        with pytest.raises(SettingsError, match=r"cannot use|is not text"):
            read_tokens(tmp_path / name, "unused")
    assert not (tmp_path / "missing").exists()


def test_an_endpoint_is_bound_and_knows_its_address(tmp_path: Path) -> None:
    settings = HttpSettings(enabled=True, port=0)
    endpoint = open_endpoint(settings, str(tmp_path / "http-token"))
    port = endpoint.channel.getsockname()[1]
    assert endpoint.url == f"http://127.0.0.1:{port}/mcp"
    with pytest.raises(Unavailable, match=f"cannot listen at 127.0.0.1 port {port}"):
        open_endpoint(HttpSettings(enabled=True, port=port), str(tmp_path / "http-token"))
    endpoint.channel.close()


def test_an_address_of_version_six_is_bracketed(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    endpoint = open_endpoint(HttpSettings(enabled=True, bind="::1", port=0), str(tmp_path / "t"))
    assert endpoint.url.startswith("http://[::1]:")
    endpoint.channel.close()


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    text = str(scope.get("cortex.principal", "nobody"))
    await PlainTextResponse(text)(scope, receive, send)


async def asked(path: str, *headers: tuple[bytes, bytes], kind: str = "http") -> tuple[int, Any]:
    """Ask the gate and return status and body."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    gate = BearerGate(inner, {TOKEN: "laptop", OTHER: "ci"})
    scope = {"type": kind, "path": path, "method": "POST", "headers": list(headers)}
    await gate(scope, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()


def bearer(text: str) -> tuple[bytes, bytes]:
    return (b"authorization", text.encode())


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("header", "name"),
    [
        (f"Bearer {TOKEN}", "http:laptop"),
        (f"bearer  {OTHER} ", "http:ci"),
        (f"BEARER {TOKEN}", "http:laptop"),
    ],
)
async def test_a_known_token_opens_and_names_its_owner(header: str, name: str) -> None:
    assert await asked("/mcp", bearer(header)) == (200, name)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"],
)
@pytest.mark.parametrize("path", ["/mcp", "/", "/health/", "/healthz"])
async def test_anything_else_is_refused_with_the_one_error_shape(header: str, path: str) -> None:
    status, body = await asked(path, bearer(header))
    assert status == 401
    assert '"code":"forbidden"' in body
    assert TOKEN not in body


@pytest.mark.anyio
async def test_no_header_is_refused_and_told_what_is_wanted() -> None:
    status, _ = await asked("/mcp")
    assert status == 401


@pytest.mark.anyio
async def test_health_needs_no_token_and_names_nobody() -> None:
    assert await asked("/health") == (200, "nobody")


def test_a_request_becomes_a_session_of_its_token() -> None:
    clock = FakeClock()
    scope: Scope = {
        "type": "http",
        "query_string": b"toolsets=code,memory",
        "headers": [(b"mcp-session-id", b"abc")],
        "cortex.principal": "http:ci",
    }
    known = frozenset({"code", "memory", "operations"})
    session = http_session(Request(scope), clock, toolsets=known, allow_mutations=True)
    assert (session.principal, session.transport, session.session_id) == ("http:ci", "http", "abc")
    assert session.toolsets == {"code", "memory"}
    assert session.allow_mutations
    scope |= {"query_string": b"", "headers": []}
    session = http_session(Request(scope), clock, toolsets=known, allow_mutations=False)
    assert (session.toolsets, session.session_id) == (None, "")
    assert not session.allow_mutations
    scope |= {"query_string": b"toolsets=code,weather"}
    with pytest.raises(NotFound, match="Unknown toolset: weather"):
        http_session(Request(scope), clock, toolsets=known, allow_mutations=False)
