import json
from dataclasses import replace
from pathlib import Path

import pytest

from code_chunks import chunk, write_chunks
from cortex.errors import InvalidParams, Unavailable
from cortex.gateway.registry import ToolRegistry
from cortex.toolsets.code.service import CodeService
from cortex.toolsets.code.tools import register
from fakes import ALICE, FakeClock, open_gateway

pytestmark = pytest.mark.anyio


def tools(clock: FakeClock) -> ToolRegistry:
    registry = ToolRegistry()
    register(registry, CodeService(clock, lambda _environ: None))
    return registry


async def test_the_answer_is_the_seeds(tmp_path: Path) -> None:
    clock = FakeClock()
    write_chunks(tmp_path / ".cortex" / "chunks", [chunk("src/auth.py", "def login(): ...")])
    caller = replace(ALICE, cwd=str(tmp_path))
    async with open_gateway(tmp_path, tools(clock), clock=clock) as gateway:
        answer = await gateway.call("cortex_search", {"query": "login"}, caller)
        data = answer.result.to_data()
        assert json.loads(answer.result.to_text()) == data == answer.result.to_structured()
        assert list(data) == ["results", "total"]
        assert data["total"] == 1
        (result,) = data["results"]
        assert list(result) == ["chunk", "combined_score"]
        assert list(result["chunk"]) == [
            "id",
            "chunk_type",
            "title",
            "text",
            "tags",
            "metadata",
            "created_at",
            "updated_at",
        ]
        assert 0 < result["combined_score"] < 1


async def test_stats_explain_the_score(tmp_path: Path) -> None:
    clock = FakeClock()
    write_chunks(tmp_path / ".cortex" / "chunks", [chunk("src/auth.py", "def login(): ...")])
    caller = replace(ALICE, cwd=str(tmp_path))
    async with open_gateway(tmp_path, tools(clock), clock=clock) as gateway:
        asked = {"query": "login", "include_stats": True}
        data = (await gateway.call("cortex_search", asked, caller)).result.to_data()
        assert set(data["results"][0]["explanation"]) == {"words", "path", "defines", "standing"}
        assert data["stats"]["chunks"] == 1
        assert data["stats"]["words_only"] == "no chunk has a vector yet"


@pytest.mark.parametrize(("limit", "count"), [(0, 1), (-5, 1), (3, 3), ("2", 2), (1000, 100)])
async def test_a_limit_out_of_range_is_pulled_to_its_bound(
    tmp_path: Path, limit: object, count: int
) -> None:
    clock = FakeClock()
    many = [chunk(f"src/{n}.py", "def login(): ...") for n in range(120)]
    write_chunks(tmp_path / ".cortex" / "chunks", many)
    caller = replace(ALICE, cwd=str(tmp_path))
    async with open_gateway(tmp_path, tools(clock), clock=clock) as gateway:
        asked = {"query": "login", "limit": limit}
        data = (await gateway.call("cortex_search", asked, caller)).result.to_data()
        assert data["total"] == len(data["results"]) == count


async def test_15_results_unless_told_otherwise(tmp_path: Path) -> None:
    clock = FakeClock()
    many = [chunk(f"src/{n}.py", "def login(): ...") for n in range(20)]
    write_chunks(tmp_path / ".cortex" / "chunks", many)
    caller = replace(ALICE, cwd=str(tmp_path))
    async with open_gateway(tmp_path, tools(clock), clock=clock) as gateway:
        data = (await gateway.call("cortex_search", {"query": "login"}, caller)).result.to_data()
        assert data["total"] == 15


@pytest.mark.parametrize("arguments", [{"query": ""}, {"query": "  "}, {}, {"query": "x", "a": 1}])
async def test_what_is_wrong_with_the_arguments_is_invalid_params(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    clock = FakeClock()
    caller = replace(ALICE, cwd=str(tmp_path))
    async with open_gateway(tmp_path, tools(clock), clock=clock) as gateway:
        with pytest.raises(InvalidParams):
            await gateway.call("cortex_search", arguments, caller)


async def test_an_unknown_chunk_type_is_refused_with_those_there_are(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_gateway(tmp_path, tools(clock), clock=clock) as gateway:
        with pytest.raises(InvalidParams) as caught:
            await gateway.call("cortex_search", {"query": "x", "chunk_types": ["poem"]})
        assert "documentation" in str(caught.value.details["issues"])


async def test_a_project_without_an_index_says_what_to_run(tmp_path: Path) -> None:
    clock = FakeClock()
    caller = replace(ALICE, cwd=str(tmp_path))
    async with open_gateway(tmp_path, tools(clock), clock=clock) as gateway:
        with pytest.raises(Unavailable, match="run `cortex index`"):
            await gateway.call("cortex_search", {"query": "x"}, caller)


def test_it_only_reads_and_fails_by_protocol() -> None:
    spec = tools(FakeClock()).get("cortex_search")
    assert not spec.policy.mutates
    assert spec.policy.failure == "protocol"
    assert [gate.value for gate in spec.policy.gates] == ["code.read"]
