"""Every tool there is, tried with everything that must be refused."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex.errors import (
    CortexError,
    GateClosed,
    InvalidParams,
    NotFound,
    RateLimited,
    SizeLimitExceeded,
)
from cortex.gateway.audit import digest_of
from cortex.gateway.spec import Caller, RateLimit, ToolSpec
from fakes import ALICE, LIMITS, WRITER, FakeClock, Gateway, every_tool, open_gateway
from probe import register_into

pytestmark = pytest.mark.anyio

TOOLS = sorted(spec.name for spec in every_tool(FakeClock(), register_into(Path())))

# These answer only where there is something to answer about.
STATEFUL = {"cortex_memory_get", "cortex_reflect"}

Open = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def opened(**options: Any) -> Any:
        clock = FakeClock()
        registry = every_tool(clock, register_into(tmp_path))
        return open_gateway(tmp_path, registry, clock=clock, **options)

    return opened


def runs(folder: Path) -> bool:
    """Tell whether a probe tool ran."""
    return (folder / "runs").exists()


async def refused(
    gateway: Gateway,
    error: type[CortexError],
    tool: str,
    arguments: object,
    caller: Caller = WRITER,
) -> CortexError:
    """Make a call that must be refused, and see that it was written down as refused."""
    await gateway.new_records()
    with pytest.raises(error) as caught:
        await gateway.call(tool, arguments, caller)
    ((kind, body),) = await gateway.new_records()
    assert kind == "outcome"
    assert (body["tool"], body["code"]) == (tool, error.code)
    assert body["outcome"] == {
        "validation_failed": "validation_error",
        "forbidden": "forbidden",
        "rate_limited": "rate_limited",
    }.get(error.code, "error")
    assert body["input_digest"] == digest_of(arguments)
    assert (body["principal"], body["client"]) == (caller.principal, caller.client)
    assert gateway.pipeline.in_flight == 0
    assert await gateway.journal.verify() == []
    return caught.value


def spec_of(name: str) -> ToolSpec:
    return every_tool(FakeClock(), register_into(Path())).get(name)


def test_the_matrix_has_every_tool() -> None:
    assert {"system.status", "system.resources", "probe.write"} <= set(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
async def test_each_gate_closed_refuses(tool: str, opened: Open, tmp_path: Path) -> None:
    for gate in spec_of(tool).policy.gates:
        forbid = f'@id("closed") forbid (principal, action == Action::"{gate}", resource);'
        async with opened(policies=[forbid]) as gateway:
            error = await refused(gateway, GateClosed, tool, {})
            assert error.details["gate"] == gate
            assert error.details["tool"] == tool
            assert "policy closed forbids it" in error.message
            assert error.details["hint"]
    assert not runs(tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_change_without_the_switch_is_refused(
    tool: str, opened: Open, tmp_path: Path
) -> None:
    if not spec_of(tool).policy.mutates:
        return
    async with opened() as gateway:
        error = await refused(gateway, GateClosed, tool, {}, ALICE)
        assert "CORTEX_MCP_ALLOW_MUTATIONS=true" in str(error.details["hint"])
    assert not runs(tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
async def test_bad_arguments_are_refused(tool: str, opened: Open, tmp_path: Path) -> None:
    fields = spec_of(tool).params.model_fields
    async with opened() as gateway:
        for arguments in ([], "text", 5):
            await refused(gateway, InvalidParams, tool, arguments)
        for name, field in fields.items():
            published = field.alias or name
            error = await refused(gateway, InvalidParams, tool, {published: {"no": ["such"]}})
            issues = error.details["issues"]
            assert isinstance(issues, list)
            assert published in {str(issue["path"]).split(".")[0] for issue in issues}
            assert "such" not in f"{error} {error.details}"
    assert not runs(tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
async def test_an_unknown_argument_is_refused_with_the_known_ones(
    tool: str, opened: Open, tmp_path: Path
) -> None:
    fields = spec_of(tool).params.model_fields
    async with opened() as gateway:
        error = await refused(gateway, InvalidParams, tool, {"no_such_argument": "sent"})
        issues = error.details["issues"]
        assert isinstance(issues, list)
        (issue,) = [i for i in issues if i["path"] == "no_such_argument"]
        assert issue["accepted"] == sorted(f.alias or name for name, f in fields.items())
        assert "'sent'" not in str(error.details)
    assert not runs(tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
async def test_an_oversize_payload_is_refused(tool: str, opened: Open, tmp_path: Path) -> None:
    max_bytes = spec_of(tool).policy.max_input_bytes or LIMITS.max_input_bytes
    async with opened() as gateway:
        arguments = {"text": "x" * max_bytes}
        error = await refused(gateway, SizeLimitExceeded, tool, arguments)
        assert error.details == {"sizeBytes": max_bytes + len('{"text":""}'), "maxBytes": max_bytes}
    assert not runs(tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
async def test_too_many_calls_are_refused(tool: str, opened: Open) -> None:
    async with opened(limits=replace(LIMITS, rate=RateLimit(2, 10))) as gateway:
        spelt = gateway.pipeline.registry.get(tool).underscored
        for name in (tool, spelt):  # one count for both spellings
            with pytest.raises(InvalidParams):
                await gateway.call(name, {"no_such_argument": 1}, WRITER)
        error = await refused(gateway, RateLimited, tool, {})
        assert error.details == {"tool": tool, "retryAfterMs": 10_001}
        assert error.retryable


async def test_a_tool_that_is_not_there_is_refused(opened: Open) -> None:
    async with opened() as gateway:
        await refused(gateway, NotFound, "no.such.tool", {})


async def test_an_open_gate_lets_the_real_tools_answer(opened: Open) -> None:
    """The refusals above mean something only if the same calls work otherwise."""
    async with opened() as gateway:
        for spec in gateway.pipeline.registry:
            if spec.toolset != "probe" and not spec.policy.mutates and spec.name not in STATEFUL:
                needed = [n for n, f in spec.params.model_fields.items() if f.is_required()]
                arguments = dict.fromkeys(needed, "words")
                assert (await gateway.call(spec.name, arguments)).result.to_data()
        assert {body["code"] for _, body in await gateway.new_records()} == {""}
