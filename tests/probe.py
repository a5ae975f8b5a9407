"""A toolset for tests: tools that echo, wait, write, fail and grow, behind the real gateway.

Each run of a tool leaves a line in the file `runs` of its folder, so that a test can count what
really happened, whatever was answered.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import anyio
from pydantic import Field

from cortex.app import Extension
from cortex.daemon.main import run_daemon
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Cache, Gate, Params, Policy, Result, ToolCall
from cortex.home import Home

READ = Policy(gates=frozenset({Gate.SYSTEM_READ}))
BRIEF = Policy(gates=frozenset({Gate.SYSTEM_READ}), timeout_s=0.2)
CACHED = Policy(gates=frozenset({Gate.SYSTEM_READ}), cache=Cache(ttl_s=60))
WRITE = Policy(gates=frozenset({Gate.SYSTEM_MUTATE}), mutates=True, safe_fields=frozenset({"text"}))
STRICT = Policy(gates=frozenset({Gate.SYSTEM_READ}), failure="protocol")
ROOMY = Policy(gates=frozenset({Gate.SYSTEM_READ}), max_input_bytes=12 * 1024 * 1024)


class EchoParams(Params):
    text: Annotated[str, Field(description="What to say back.")] = ""
    wait_s: Annotated[float, Field(ge=0, description="How long to wait first.")] = 0.0


class GrowParams(Params):
    size_bytes: Annotated[int, Field(ge=0, description="How long the answer is.")]


class Echo(Result):
    text: str
    pid: int


def register_into(folder: Path) -> Extension:
    """Return what registers the probe tools; their runs are noted in the folder."""

    def note(tool: str, text: str) -> None:
        with (folder / "runs").open("a") as file:
            file.write(f"{tool} {text}\n")

    async def answer(tool: str, params: EchoParams) -> Echo:
        note(tool, params.text)
        await anyio.sleep(params.wait_s)
        return Echo(text=params.text, pid=os.getpid())

    def register(registry: ToolRegistry) -> None:
        async def echo(params: EchoParams, _call: ToolCall) -> Echo:
            """Say it back, after a while."""
            return await answer("echo", params)

        async def write(params: EchoParams, _call: ToolCall) -> Echo:
            """Pretend to change something."""
            return await answer("write", params)

        async def fail(_params: EchoParams, _call: ToolCall) -> Echo:
            """Fail with a text that must not reach the caller."""
            raise RuntimeError("the secret is swordfish")

        async def grow(params: GrowParams, _call: ToolCall) -> Echo:
            """Answer at length."""
            return Echo(text="x" * params.size_bytes, pid=os.getpid())

        add = registry.add
        for name, handler, policy in (
            ("probe.echo", echo, READ),
            ("probe.roomy", echo, ROOMY),
            ("probe.brief", echo, BRIEF),
            ("probe.cached", echo, CACHED),
            ("probe.write", write, WRITE),
            ("probe.fail", fail, READ),
            ("probe.strict", fail, STRICT),
        ):
            add(name, handler, toolset="probe", params=EchoParams, result=Echo, policy=policy)
        add("probe.grow", grow, toolset="probe", params=GrowParams, result=Echo, policy=READ)

    return register


if __name__ == "__main__":
    home = Home.from_environ(os.environ)
    config = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    sys.exit(run_daemon(home, config, os.environ, extensions=[register_into(Path(home.root))]))
