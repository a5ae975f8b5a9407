from dataclasses import replace

import pytest

from cortex.errors import NotFound, ToolDefinitionError
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Cache, Policy
from fakes import READS, WRITES, Said, Say, registry_of, say


def add(registry: ToolRegistry, name: str, policy: Policy = READS) -> None:
    registry.add(name, say, toolset="test", params=Say, result=Said, policy=policy)


def refusal(name: str, policy: Policy = READS, registry: ToolRegistry | None = None) -> str:
    with pytest.raises(ToolDefinitionError) as caught:
        add(registry or ToolRegistry(), name, policy)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_tool_without_a_gate_is_refused() -> None:
    assert refusal("t", replace(READS, gates=frozenset())) == "tool 't' needs at least one gate"


def test_a_tool_without_a_docstring_is_refused() -> None:
    async def silent(params: Say, _call: object) -> Said:
        return Said(text=params.text)

    with pytest.raises(ToolDefinitionError, match=r"^tool 't' needs a docstring"):
        ToolRegistry().add("t", silent, toolset="test", params=Say, result=Said, policy=READS)


def test_a_docstring_of_blanks_is_no_docstring() -> None:
    async def silent(params: Say, _call: object) -> Said:
        return Said(text=params.text)

    silent.__doc__ = " \n\t "
    with pytest.raises(ToolDefinitionError, match="needs a docstring"):
        ToolRegistry().add("t", silent, toolset="test", params=Say, result=Said, policy=READS)


@pytest.mark.parametrize(
    ("first", "second"), [("a.b", "a.b"), ("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")]
)
def test_a_name_that_is_taken_in_either_spelling_is_refused(first: str, second: str) -> None:
    registry = ToolRegistry()
    add(registry, first)
    assert refusal(second, registry=registry).endswith("takes a name that is already used")
    assert len(registry) == 1


@pytest.mark.parametrize("name", ["", "1a", ".a", "a b", "a/b", "ä", "a\n", "x" * 65])
def test_a_name_that_clients_refuse_is_refused(name: str) -> None:
    assert "needs a name that matches" in refusal(name)


def test_a_name_of_64_characters_is_accepted() -> None:
    registry = ToolRegistry()
    add(registry, "x" * 64)
    assert len(registry) == 1


def test_a_cache_on_a_write_is_refused() -> None:
    policy = replace(WRITES, cache=Cache(ttl_s=30))
    assert refusal("t", policy).endswith("its answers cannot be cached")


def test_a_safe_field_that_is_no_parameter_is_refused_by_name() -> None:
    policy = replace(READS, safe_fields=frozenset({"text", "nope", "none"}))
    assert refusal("t", policy).endswith("declares safe fields it does not have: none, nope")


def test_the_description_is_the_docstring_in_one_line() -> None:
    async def wordy(params: Say, _call: object) -> Said:
        """Say it.

        And again.
        """
        return Said(text=params.text)

    registry = ToolRegistry()
    registry.add("t", wordy, toolset="test", params=Say, result=Said, policy=READS)
    assert registry.get("t").description == "Say it. And again."


def test_a_tool_is_found_under_both_spellings() -> None:
    registry = registry_of(("a.b", say, READS))
    assert registry.get("a.b") is registry.get("a_b") is registry.find("a_b")
    assert registry.get("a_b").underscored == "a_b"


def test_an_unknown_tool_is_not_found() -> None:
    registry = registry_of(("a.b", say, READS))
    assert registry.find("a-b") is None
    with pytest.raises(NotFound) as caught:
        registry.get("x" * 1000)
    assert caught.value.details == {"kind": "tool", "name": "x" * 128}


def test_tools_are_walked_by_name_whatever_the_order_of_their_registration() -> None:
    registry = registry_of(("b", say, READS), ("a", say, READS), ("c", say, READS))
    assert [spec.name for spec in registry] == ["a", "b", "c"]
    assert registry.toolsets() == {"test"}
