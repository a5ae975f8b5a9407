from dataclasses import replace
from typing import Any

import pytest

from cortex.gateway.cache import Generations, ResultCache
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Params, ToolCall
from fakes import ALICE, READS, FakeClock, Said, Say, registry_of, say

SPEC = registry_of(("t.read", say, READS)).get("t.read")
OTHER = registry_of(("t.other", say, READS)).get("t.other")


class Number(Params):
    x: float | int | None = None


def key_of(number: Any) -> str:
    async def measure(_params: Number, _call: ToolCall) -> Said:
        """Measure."""
        return Said(text="")

    registry = ToolRegistry()
    registry.add("n", measure, toolset="test", params=Number, result=Said, policy=READS)
    return ResultCache.key(registry.get("n"), Number(x=number), ALICE, 0)


def test_defaults_and_the_same_values_said_aloud_have_one_key() -> None:
    explicit = Say(text="", times=1, secret="")
    assert ResultCache.key(SPEC, Say(), ALICE, 0) == ResultCache.key(SPEC, explicit, ALICE, 0)


def test_tool_arguments_principal_place_and_generation_separate() -> None:
    elsewhere = replace(ALICE, cwd="/home/alice/other")
    configured = replace(ALICE, environ={"CORTEX_CHUNKS_DIR": "/tmp/chunks"})
    keys = [
        ResultCache.key(SPEC, Say(), ALICE, 0),
        ResultCache.key(OTHER, Say(), ALICE, 0),
        ResultCache.key(SPEC, Say(text="x"), ALICE, 0),
        ResultCache.key(SPEC, Say(), replace(ALICE, principal="uid:1001"), 0),
        ResultCache.key(SPEC, Say(), elsewhere, 0),
        ResultCache.key(SPEC, Say(), configured, 0),
        ResultCache.key(SPEC, Say(), ALICE, 1),
    ]
    assert len(set(keys)) == len(keys)


def test_numbers_json_has_no_word_for_are_not_confused() -> None:
    """The orjson library writes NaN and both infinities as null, and refuses more than 64 bits."""
    numbers = [None, float("nan"), float("inf"), float("-inf"), 10**30, -(10**30)]
    assert len({key_of(number) for number in numbers}) == len(numbers)


def test_an_answer_is_fresh_until_its_time_is_over() -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    cache.put("k", Said(text="a"), ttl_s=30, size_bytes=10)
    clock.advance(29.9)
    assert cache.get("k") == Said(text="a")
    clock.advance(0.1)
    assert cache.get("k") is None


def test_the_oldest_answers_leave_when_the_bytes_are_spent() -> None:
    cache = ResultCache(FakeClock(), max_bytes=100)
    for name in "abc":
        cache.put(name, Said(text=name), ttl_s=30, size_bytes=40)
    assert [name for name in "abc" if cache.get(name)] == ["b", "c"]


def test_an_answer_that_was_asked_for_again_outlives_one_that_was_not() -> None:
    cache = ResultCache(FakeClock(), max_bytes=100)
    cache.put("a", Said(text="a"), ttl_s=30, size_bytes=40)
    cache.put("b", Said(text="b"), ttl_s=30, size_bytes=40)
    cache.get("a")
    cache.put("c", Said(text="c"), ttl_s=30, size_bytes=40)
    assert [name for name in "abc" if cache.get(name)] == ["a", "c"]


@pytest.mark.parametrize(("size_bytes", "is_kept"), [(100, True), (101, False)])
def test_an_answer_larger_than_the_whole_cache_is_not_kept(size_bytes: int, is_kept: bool) -> None:
    cache = ResultCache(FakeClock(), max_bytes=100)
    cache.put("a", Said(text="a"), ttl_s=30, size_bytes=size_bytes)
    assert (cache.get("a") is not None) == is_kept


def test_generations_grow_for_the_toolsets_that_changed_only() -> None:
    generations = Generations()
    generations.bump(["memory", "code"])
    generations.bump(["memory"])
    assert [generations.of(name) for name in ("memory", "code", "operations")] == [2, 1, 0]
