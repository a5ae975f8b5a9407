"""Every test that takes `settings` or `engine` runs twice: embedded, and against a server."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr

from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import Engine, open_engine

PASSWORD = "open sesame: ü%40"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start ClickHouse's HTTP interface in a process that ends with its standard input."""
    command = [sys.executable, str(Path(__file__).with_name("clickhouse_http.py"))]
    options = ["--path", str(tmp_path_factory.mktemp("server")), "--password", PASSWORD]
    with subprocess.Popen(
        command + options, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, "the server process ended before it listened"
        yield f"http://127.0.0.1:{port}"
        server.stdin.close()


@pytest.fixture
def server_settings(server_url: str) -> ClickHouseSettings:
    """Name an empty database on the shared server."""
    return ClickHouseSettings(
        url=server_url, database=f"cortex_{uuid4().hex}", password=SecretStr(PASSWORD)
    )


@pytest.fixture(params=["embedded", "server"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> ClickHouseSettings:
    """Name an empty database, in a data directory of its own or on the shared server."""
    if request.param == "server":
        return request.getfixturevalue("server_settings")
    return ClickHouseSettings(url=f"chdb://{tmp_path / 'clickhouse'}")


@pytest.fixture
async def engine(settings: ClickHouseSettings) -> AsyncIterator[Engine]:
    opened = await open_engine(settings)
    yield opened
    await opened.close()
