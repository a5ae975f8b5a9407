from pathlib import Path

import pytest

from cortex.errors import InvalidParams
from fakes import FakeClock, every_tool, open_gateway

pytestmark = pytest.mark.anyio


async def test_status_gives_services_and_resources_unless_told_otherwise(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_gateway(tmp_path, every_tool(clock), clock=clock) as gateway:
        answer = await gateway.call("system.status")
        assert set(answer.result.to_data()) == {"services", "resources"}
        answer = await gateway.call("system.status", {"include": "version, uptime"})
        assert set(answer.result.to_data()) == {"version", "uptimeSec"}
        with pytest.raises(InvalidParams, match=r"^include\.0: "):
            await gateway.call("system.status", {"include": ["weather"]})


async def test_resources_refuse_a_window_out_of_range(tmp_path: Path) -> None:
    """Operations reject where retrieval tools clamp."""
    clock = FakeClock()
    async with open_gateway(tmp_path, every_tool(clock), clock=clock) as gateway:
        answer = await gateway.call("system.resources", {"sampleWindowSec": "300"})
        assert set(answer.result.to_data()) == {"cpu", "memory", "loadAvg"}
        for window in (0, 301):
            with pytest.raises(InvalidParams) as caught:
                await gateway.call("system.resources", {"sampleWindowSec": window})
            assert caught.value.message.startswith("sampleWindowSec: ")
