"""The fixed order of a call, through the real parts: SQLite, Cedar, the cache and the chain."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cortex.errors import (
    Conflict,
    CortexError,
    DeadlineExceeded,
    GateClosed,
    InternalError,
    InvalidParams,
    NotFound,
    RateLimited,
    SizeLimitExceeded,
    StoreError,
    Unavailable,
)
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Cache, Policy, RateLimit, Result, ToolCall
from fakes import (
    ALICE,
    LIMITS,
    READS,
    WRITER,
    WRITES,
    Gateway,
    Said,
    Say,
    Work,
    open_gateway,
    registry_of,
    say,
)

pytestmark = pytest.mark.anyio

CACHED = replace(READS, cache=Cache(ttl_s=30))
SECRET = "the secret is 4711"

Open = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def opened(work: Work = say, policy: Policy = READS, **options: Any) -> Any:
        return open_gateway(tmp_path, registry_of(("t.tool", work, policy)), **options)

    return opened


async def outcomes(gateway: Gateway) -> list[tuple[str, str]]:
    """Return kind and ending of the new records; nothing may run and the chain must hold."""
    assert gateway.pipeline.in_flight == 0
    assert await gateway.journal.verify() == []
    return [(kind, body.get("outcome", "")) for kind, body in await gateway.new_records()]


async def failing(_params: Say, _call: ToolCall) -> Said:
    raise RuntimeError(SECRET)


class Counted:
    """A tool that knows how often it ran."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, params: Say, _call: ToolCall) -> Said:
        self.runs += 1
        return Said(text=f"{params.text}{self.runs}")


class Held:
    """A tool that waits until it is let go, and notices when it is stopped."""

    def __init__(self) -> None:
        self.began = anyio.Event()
        self.go = anyio.Event()
        self.was_stopped = False

    async def __call__(self, params: Say, _call: ToolCall) -> Said:
        self.began.set()
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.was_stopped = True
            raise
        return Said(text=params.text)


# The way of a call.


async def test_a_call_is_answered_and_written_down(opened: Open) -> None:
    async def slow(params: Say, call: ToolCall) -> Said:
        gateway.clock.advance(0.25)
        assert (call.tool, call.call_id, call.caller) == ("t.tool", "id-2", ALICE)
        assert gateway.pipeline.in_flight == 1
        return Said(text=params.text)

    async with opened(slow) as gateway:
        answer = await gateway.call("t_tool", {"text": "hello"})
        assert answer.result == Said(text="hello")
        assert (answer.call_id, answer.cached) == ("id-2", False)
        assert answer.duration_ms == pytest.approx(250)
        ((kind, body),) = await gateway.new_records()
        assert kind == "outcome"
        assert body["tool"] == "t_tool"
        assert (body["outcome"], body["code"], body["cached"]) == ("success", "", False)
        assert body["duration_ms"] == pytest.approx(250)
        assert gateway.pipeline.in_flight == 0


async def test_an_unknown_tool_is_not_found_and_written_down(opened: Open) -> None:
    async with opened() as gateway:
        with pytest.raises(NotFound):
            await gateway.call("t.nope", {"secret": SECRET})
        ((_, body),) = await gateway.new_records()
        assert (body["tool"], body["outcome"], body["code"]) == ("t.nope", "error", "not_found")
        assert SECRET not in str(body)


async def test_a_refused_call_does_not_run_nor_count(opened: Open) -> None:
    tool = Counted()
    policy = replace(WRITES, limit=RateLimit(1, 10))
    async with opened(tool, policy) as gateway:
        for _ in range(3):
            with pytest.raises(GateClosed):
                await gateway.call("t.tool")
        assert await outcomes(gateway) == [("outcome", "forbidden")] * 3
        await gateway.call("t.tool", caller=WRITER)
        assert tool.runs == 1


async def test_an_invalid_call_does_not_run_but_counts(opened: Open) -> None:
    """Limit before validation: a loop of bad calls is stopped too."""
    tool = Counted()
    async with opened(tool, replace(READS, limit=RateLimit(2, 10))) as gateway:
        for _ in range(2):
            with pytest.raises(InvalidParams):
                await gateway.call("t.tool", {"times": 99})
        with pytest.raises(RateLimited):
            await gateway.call("t.tool", {"times": 99})
        assert tool.runs == 0
        assert await outcomes(gateway) == [
            ("outcome", "validation_error"),
            ("outcome", "validation_error"),
            ("outcome", "rate_limited"),
        ]


async def test_both_spellings_of_a_tool_share_one_limit(opened: Open) -> None:
    async with opened(policy=replace(READS, limit=RateLimit(2, 10))) as gateway:
        await gateway.call("t.tool")
        await gateway.call("t_tool")
        with pytest.raises(RateLimited):
            await gateway.call("t.tool")


async def test_a_tool_without_a_limit_of_its_own_has_that_of_the_house(opened: Open) -> None:
    async with opened(limits=replace(LIMITS, rate=RateLimit(1, 10))) as gateway:
        await gateway.call("t.tool")
        with pytest.raises(RateLimited) as caught:
            await gateway.call("t.tool")
        gateway.clock.advance(int(str(caught.value.details["retryAfterMs"])) / 1000)
        await gateway.call("t.tool")


async def test_a_payload_over_the_limit_is_refused_before_it_is_looked_at(opened: Open) -> None:
    async with opened(limits=replace(LIMITS, max_input_bytes=20)) as gateway:
        await gateway.call("t.tool", {"text": "123456789"})
        with pytest.raises(SizeLimitExceeded) as caught:
            await gateway.call("t.tool", {"nope": "1234567890"})
        assert caught.value.details == {"sizeBytes": 21, "maxBytes": 20}
        assert "1234567890" not in str(caught.value)


async def test_a_tool_may_take_more_than_the_house_allows(opened: Open) -> None:
    limits = replace(LIMITS, max_input_bytes=20)
    async with opened(policy=replace(READS, max_input_bytes=100), limits=limits) as gateway:
        await gateway.call("t.tool", {"text": "1234567890"})


async def test_arguments_nested_without_end_are_refused(opened: Open) -> None:
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    async with opened() as gateway:
        with pytest.raises(InvalidParams, match="nested too deeply"):
            await gateway.call("t.tool", {"text": deep})
        assert await outcomes(gateway) == [("outcome", "validation_error")]


# Faults.


async def test_a_fault_of_ours_reaches_the_log_whole_and_the_caller_as_a_number(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(failing) as gateway:
        with pytest.raises(InternalError) as caught:
            await gateway.call("t.tool")
        assert caught.value.details == {"correlationId": "id-2"}
        assert SECRET not in str(caught.value)
        assert SECRET in caplog.text
        assert await outcomes(gateway) == [("outcome", "error")]


async def test_an_error_with_a_code_reaches_the_caller_as_it_is(opened: Open) -> None:
    async def conflicting(_params: Say, _call: ToolCall) -> Said:
        raise Conflict("somebody was here before", hint="read again")

    async with opened(conflicting) as gateway:
        with pytest.raises(Conflict, match="somebody was here before"):
            await gateway.call("t.tool")
        ((_, body),) = await gateway.new_records()
        assert (body["outcome"], body["code"]) == ("error", "conflict")


async def test_a_tool_that_breaks_its_result_schema_fails_without_telling_what_it_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Other(Result):
        words: str

    async def handler(_params: Say, _call: ToolCall) -> Said:
        """Answer something else."""
        return Other(words=SECRET)  # pyright: ignore[reportReturnType]

    registry = ToolRegistry()
    registry.add("t.tool", handler, toolset="test", params=Say, result=Said, policy=READS)
    async with open_gateway(tmp_path, registry) as gateway:
        with pytest.raises(InternalError) as caught:
            await gateway.call("t.tool")
        assert SECRET not in str(caught.value)
        assert SECRET not in str(caught.value.details)
        assert "t.tool broke its result schema" in caplog.text
        assert await outcomes(gateway) == [("outcome", "error")]


async def test_what_a_result_has_beyond_its_schema_is_dropped(opened: Open) -> None:
    class More(Said):
        secret: str

    async def talkative(_params: Say, _call: ToolCall) -> Said:
        return More(text="a", secret=SECRET)

    async with opened(talkative) as gateway:
        assert (await gateway.call("t.tool")).result.to_data() == {"text": "a"}


async def test_a_result_over_the_limit_is_refused(opened: Open) -> None:
    async with opened(limits=replace(LIMITS, max_result_bytes=20)) as gateway:
        await gateway.call("t.tool", {"text": "123456789"})
        with pytest.raises(SizeLimitExceeded, match=r"^The result of t\.tool is 21 bytes"):
            await gateway.call("t.tool", {"text": "1234567890"})


# Time.


@pytest.mark.parametrize("policy", [replace(READS, timeout_s=0.01), READS])
async def test_a_timeout_stops_the_work(opened: Open, policy: Policy) -> None:
    tool = Held()
    async with opened(tool, policy, limits=replace(LIMITS, timeout_s=0.01)) as gateway:
        with pytest.raises(DeadlineExceeded) as caught:
            await gateway.call("t.tool")
        assert tool.was_stopped
        assert caught.value.details == {"timeoutMs": 10}
        ((_, body),) = await gateway.new_records()
        assert (body["outcome"], body["code"]) == ("error", "unavailable")
        assert gateway.pipeline.in_flight == 0


async def test_a_cancelled_call_is_stopped_and_written_down(opened: Open) -> None:
    tool = Held()
    async with opened(tool) as gateway:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(gateway.call, "t.tool")
                await tool.began.wait()
                assert gateway.pipeline.in_flight == 1
                group.cancel_scope.cancel()
        assert tool.was_stopped
        assert await outcomes(gateway) == [("outcome", "cancelled")]


async def test_calls_run_beside_each_other(opened: Open) -> None:
    tool = Held()
    async with opened(tool) as gateway:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(gateway.call, "t.tool")
                while gateway.pipeline.in_flight < 3:
                    await anyio.lowlevel.checkpoint()
                tool.go.set()
        assert await outcomes(gateway) == [("outcome", "success")] * 3


# Changes.


async def test_an_intent_stands_before_the_change_and_the_outcome_after(opened: Open) -> None:
    order: list[str] = []

    async def change(_params: Say, _call: ToolCall) -> Said:
        order.append("change")
        return Said(text="done")

    async with opened(change, WRITES) as gateway:
        gateway.brittle.on_append = order.append
        await gateway.call("t.tool", {"text": "x", "secret": SECRET}, WRITER)
        assert order == ["intent", "change", "outcome"]
        (_, intent), (_, outcome) = await gateway.new_records()
        assert intent["input"] == {"text": "x"}
        assert intent["call_id"] == outcome["call_id"]
        assert intent["input_digest"] == outcome["input_digest"]
        assert SECRET not in f"{intent}{outcome}"


async def test_a_change_whose_intent_cannot_be_written_is_not_made(opened: Open) -> None:
    tool = Counted()
    async with opened(tool, WRITES) as gateway:
        gateway.brittle.fails_on = {"intent"}
        with pytest.raises(Unavailable, match="was not run"):
            await gateway.call("t.tool", caller=WRITER)
        assert tool.runs == 0
        assert await outcomes(gateway) == [("outcome", "error")]


async def test_an_answer_is_given_though_its_outcome_cannot_be_written(opened: Open) -> None:
    """What was done was done; `status` shows that the record is missing."""
    async with opened(policy=WRITES) as gateway:
        gateway.brittle.fails_on = {"outcome"}
        assert (await gateway.call("t.tool", caller=WRITER)).result == Said(text="")
        assert gateway.audit.last_error == "the disk is full"
        assert await outcomes(gateway) == [("intent", "")]


async def test_a_read_runs_though_nothing_can_be_written(opened: Open) -> None:
    async with opened() as gateway:
        gateway.brittle.fails_on = {"intent", "outcome"}
        await gateway.call("t.tool")
        assert await outcomes(gateway) == []


@pytest.mark.parametrize("code", ["", "internal_error", "cancelled"])
async def test_every_change_also_a_failed_one_makes_what_was_read_old(
    opened: Open, code: str
) -> None:
    """Half a change is a change."""
    held = Held()

    async def change(params: Say, call: ToolCall) -> Said:
        if code == "internal_error":
            raise RuntimeError(SECRET)
        return await held(params, call)

    async with opened(change, WRITES) as gateway:
        if not code:
            held.go.set()
        async with anyio.create_task_group() as group:
            with contextlib.suppress(CortexError):
                if code == "cancelled":
                    group.start_soon(gateway.call, "t.tool", None, WRITER)
                    await held.began.wait()
                    group.cancel_scope.cancel()
                else:
                    await gateway.call("t.tool", caller=WRITER)
        assert gateway.generations.of("test") == 1
        (_, _), (_, outcome) = await gateway.new_records()
        assert outcome["code"] == code


# The cache.


async def test_an_answer_is_given_again_until_its_time_is_over(opened: Open) -> None:
    tool = Counted()
    async with opened(tool, CACHED) as gateway:
        first = await gateway.call("t.tool", {})
        again = await gateway.call("t.tool", {"text": "", "times": "1"})
        assert (first.cached, again.cached) == (False, True)
        assert first.result == again.result
        gateway.clock.advance(30)
        assert not (await gateway.call("t.tool", {})).cached
        assert tool.runs == 2
        cached = [body["cached"] for _, body in await gateway.new_records()]
        assert cached == [False, True, False]


async def test_a_tool_that_declares_no_cache_runs_each_time(opened: Open) -> None:
    tool = Counted()
    async with opened(tool) as gateway:
        await gateway.call("t.tool")
        await gateway.call("t.tool")
        assert tool.runs == 2


async def test_nobody_gets_the_answer_of_another(opened: Open) -> None:
    async with opened(Counted(), CACHED) as gateway:
        for caller in (ALICE, replace(ALICE, principal="uid:2"), replace(ALICE, cwd="/elsewhere")):
            assert not (await gateway.call("t.tool", caller=caller)).cached


async def test_a_cached_answer_is_still_authorised_and_counted(opened: Open) -> None:
    policy = replace(CACHED, limit=RateLimit(2, 10))
    async with opened(policy=policy) as gateway:
        await gateway.call("t.tool")
        assert (await gateway.call("t.tool")).cached
        with pytest.raises(RateLimited):
            await gateway.call("t.tool")


async def test_a_change_in_the_toolset_is_followed_by_a_fresh_read(tmp_path: Path) -> None:
    registry = registry_of(("t.read", Counted(), CACHED), ("t.write", say, WRITES))
    async with open_gateway(tmp_path, registry) as gateway:
        assert (await gateway.call("t.read")).result == Said(text="1")
        assert (await gateway.call("t.read")).cached
        await gateway.call("t.write", caller=WRITER)
        assert (await gateway.call("t.read")).result == Said(text="2")


async def test_an_answer_computed_while_a_change_was_made_is_not_kept(tmp_path: Path) -> None:
    held = Held()
    registry = registry_of(("t.read", held, CACHED), ("t.write", say, WRITES))
    async with open_gateway(tmp_path, registry) as gateway:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(gateway.call, "t.read")
                await held.began.wait()
                await gateway.call("t.write", caller=WRITER)
                held.go.set()
        assert not (await gateway.call("t.read")).cached


async def test_errors_are_not_kept(opened: Open) -> None:
    runs: list[int] = []

    async def first_fails(_params: Say, _call: ToolCall) -> Said:
        runs.append(1)
        if len(runs) == 1:
            raise Unavailable("not yet")
        return Said(text="now")

    async with opened(first_fails, CACHED) as gateway:
        with pytest.raises(Unavailable):
            await gateway.call("t.tool")
        assert (await gateway.call("t.tool")).result == Said(text="now")


async def test_an_answer_larger_than_the_cache_is_not_kept(opened: Open) -> None:
    async with opened(policy=CACHED, cache_bytes=50) as gateway:
        for text, is_cached in (("x" * 10, True), ("x" * 100, False)):
            await gateway.call("t.tool", {"text": text})
            assert (await gateway.call("t.tool", {"text": text})).cached == is_cached


# Everything at once, and what a trace shows of it.


async def test_the_chain_holds_after_calls_of_every_ending(tmp_path: Path) -> None:
    limited = replace(READS, limit=RateLimit(1, 10))
    registry = registry_of(
        ("t.read", say, CACHED),
        ("t.write", say, WRITES),
        ("t.fail", failing, READS),
        ("t.once", say, limited),
    )
    async with open_gateway(tmp_path, registry) as gateway:
        for tool, arguments, caller in (
            ("t.read", {}, ALICE),
            ("t.read", {}, ALICE),
            ("t.write", {}, ALICE),
            ("t.write", {}, WRITER),
            ("t.read", {"times": "x"}, ALICE),
            ("t.read", {"text": "x" * 10_000}, ALICE),
            ("t.fail", {}, ALICE),
            ("t.once", {}, ALICE),
            ("t.once", {}, ALICE),
            ("t.nope", {}, ALICE),
        ):
            with contextlib.suppress(CortexError):
                await gateway.call(tool, arguments, caller)
        codes = [body.get("code", kind) for kind, body in await gateway.new_records()]
        assert codes == [
            "",
            "",
            "forbidden",
            "intent",
            "",
            "validation_failed",
            "size_limit_exceeded",
            "internal_error",
            "",
            "rate_limited",
            "not_found",
        ]
        assert await gateway.journal.verify() == []
        assert gateway.pipeline.in_flight == 0


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    # The provider is one for the process and can be set once: whoever was first keeps it.
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


def seen(span: ReadableSpan) -> tuple[Any, ...]:
    attributes = span.attributes or {}
    return tuple(attributes[f"cortex.{name}"] for name in ("tool", "code", "cached"))


async def test_each_call_is_one_span_with_code_and_cached(
    opened: Open, exporter: InMemorySpanExporter
) -> None:
    async with opened(policy=CACHED) as gateway:
        answer = await gateway.call("t.tool")
        await gateway.call("t.tool")
        for tool, arguments in (("t.tool", {"times": 0}), ("x" * 300, {})):
            with contextlib.suppress(CortexError):
                await gateway.call(tool, arguments)
    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} == {"cortex.call"}
    assert [seen(span) for span in spans] == [
        ("t.tool", "success", False),
        ("t.tool", "success", True),
        ("t.tool", "validation_failed", False),
        ("x" * 128, "not_found", False),
    ]
    assert (spans[0].attributes or {})["cortex.call_id"] == answer.call_id


async def test_a_span_never_holds_the_text_of_an_exception(
    opened: Open, exporter: InMemorySpanExporter
) -> None:
    async with opened(failing) as gateway:
        with pytest.raises(InternalError):
            await gateway.call("t.tool")
    (span,) = exporter.get_finished_spans()
    assert seen(span) == ("t.tool", "internal_error", False)
    assert SECRET not in span.to_json()


async def test_a_call_joins_the_trace_it_comes_from(
    opened: Open, exporter: InMemorySpanExporter
) -> None:
    async with opened() as gateway:
        with trace.get_tracer("client").start_as_current_span("client") as parent:
            await gateway.call("t.tool")
    inner, outer = exporter.get_finished_spans()
    assert (inner.name, outer.name) == ("cortex.call", "client")
    assert inner.parent == parent.get_span_context()


async def test_what_the_store_says_of_a_fault_of_ours_stays_in_the_log(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused(_params: Say, _call: ToolCall) -> Said:
        raise StoreError(SECRET)

    async with opened(refused) as gateway:
        with pytest.raises(InternalError) as raised:
            await gateway.call("t.tool")
        assert SECRET not in str(raised.value)
        assert SECRET in caplog.text
        assert await outcomes(gateway) == [("outcome", "error")]


async def test_a_call_refused_before_it_got_here_leaves_a_record_and_is_not_run(
    opened: Open,
) -> None:
    counted = Counted()
    async with opened(counted) as gateway:
        with pytest.raises(InvalidParams, match="no frame"):
            await gateway.pipeline.call("t.tool", {}, ALICE, refusal=InvalidParams("no frame"))
        assert counted.runs == 0
        assert await outcomes(gateway) == [("outcome", "validation_error")]
