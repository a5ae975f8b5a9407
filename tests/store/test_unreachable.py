"""A store that is away, slow or refuses us: one clear line, in bounded time, without a password."""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from clickhouse_connect.driver.httpclient import HttpClient
from pydantic import SecretStr

from cortex.errors import CortexError, DeadlineExceeded, SettingsError, StoreUnavailable
from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import open_engine

pytestmark = pytest.mark.anyio

SECRET = "do not show me"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Listen, accept, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


async def refusal_of(settings: ClickHouseSettings) -> CortexError:
    with anyio.fail_after(20), pytest.raises(CortexError) as refused:
        await open_engine(settings)
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.hint
    return refused.value


async def test_a_server_that_is_away_is_named_with_its_reason(
    capfd: pytest.CaptureFixture[str],
) -> None:
    port = closed_port()
    url = f"http://someone:{SECRET.replace(' ', '%20')}@127.0.0.1:{port}"
    refused = await refusal_of(ClickHouseSettings(url=url, password=SecretStr(SECRET)))
    assert isinstance(refused, StoreUnavailable)
    expected = f"ClickHouse at http://127.0.0.1:{port} cannot be reached: connection refused"
    assert refused.message == expected
    assert capfd.readouterr() == ("", "")


async def test_a_host_that_does_not_exist_is_named() -> None:
    refused = await refusal_of(ClickHouseSettings(url="http://no-such-host.invalid:8123"))
    assert refused.message.startswith("ClickHouse at http://no-such-host.invalid:8123 cannot be")


async def test_a_server_that_never_answers_is_given_up(silent_port: int) -> None:
    url = f"http://127.0.0.1:{silent_port}"
    refused = await refusal_of(ClickHouseSettings(url=url, timeout_seconds=0.5))
    assert refused.message == f"ClickHouse at {url} does not answer within 0.5 s"


async def test_a_wrong_password_is_said_without_showing_it(
    server_settings: ClickHouseSettings,
) -> None:
    wrong = server_settings.model_copy(update={"password": SecretStr(SECRET)})
    refused = await refusal_of(wrong)
    assert isinstance(refused, StoreUnavailable)
    assert refused.message == f"ClickHouse at {wrong.url} refuses the user or password"
    assert refused.details["clickhouseCode"] == 516


@pytest.mark.parametrize("body", [b"<html>hello</html>", b""])
@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "502 Bad Gateway"])
async def test_something_that_is_not_clickhouse_is_recognised(status: str, body: bytes) -> None:
    answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(answer)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        refused = await refusal_of(ClickHouseSettings(url=f"http://127.0.0.1:{port}"))
        assert isinstance(refused, StoreUnavailable)
        tasks.cancel_scope.cancel()


async def test_a_server_that_falls_silent_later_meets_the_deadline(
    server_settings: ClickHouseSettings, silent_port: int
) -> None:
    """The engine is opened on a working server, whose address then stops answering."""
    engine = await open_engine(server_settings.model_copy(update={"timeout_seconds": 1.0}))
    with engine._handles.lend(1) as client:
        assert isinstance(client, HttpClient)
        client._backend._base_url = f"http://127.0.0.1:{silent_port}/"
    with anyio.fail_after(10), pytest.raises(DeadlineExceeded):
        await engine.ping()
    await engine.close()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Hold the data directory open in another process."""
    hold = f"import chdb; c = chdb.connect({str(tmp_path)!r}); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        yield process
        process.stdin.write(b"\n")


async def test_a_directory_in_use_names_the_process_that_holds_it(
    tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    refused = await refusal_of(ClickHouseSettings(url=f"chdb://{tmp_path}"))
    assert isinstance(refused, StoreUnavailable)
    assert refused.message == f"The data directory {tmp_path} is in use by process {holder.pid}"


async def test_a_data_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for unusable in (file, file / "below", Path("/proc/nowhere"), tmp_path / "what?"):
        refused = await refusal_of(ClickHouseSettings(url=f"chdb://{unusable}"))
        assert isinstance(refused, StoreUnavailable)
        assert str(unusable) in refused.message
    assert file.read_text() == "mine"


async def test_rows_that_cannot_be_handed_over_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(ClickHouseSettings(url=f"chdb://{tmp_path}"))
    await engine.command("CREATE TABLE sample (n UInt8) ENGINE = MergeTree ORDER BY n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    with pytest.raises(StoreUnavailable, match="cannot take rows: no such file or directory"):
        await engine.insert("sample", ["n"], [[1]])
    await engine.close()


async def test_a_damaged_data_directory_is_refused_and_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = ClickHouseSettings(url=f"chdb://{tmp_path}")
    await (await open_engine(settings)).close()
    damaged = tmp_path / "metadata" / "cortex.sql"
    damaged.write_bytes(b"\xff\0 nonsense")
    refused = await refusal_of(settings)
    assert refused.message == f"The embedded engine does not start on {tmp_path}"
    assert "cortex.sql" in capfd.readouterr().err
    assert damaged.read_bytes() == b"\xff\0 nonsense"


async def test_a_new_data_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "höme 100%" / "clickhouse"
    engine = await open_engine(ClickHouseSettings(url=f"chdb://{directory}"))
    await engine.close()
    assert directory.stat().st_mode & 0o777 == 0o700


async def test_a_cluster_needs_a_server(tmp_path: Path) -> None:
    refused = await refusal_of(ClickHouseSettings(url=f"chdb://{tmp_path}", cluster="main"))
    assert isinstance(refused, SettingsError)
