from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex.errors import Unavailable
from cortex.gateway.audit import AuditTrail, CallFacts, digest_of
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Params, ToolCall
from cortex.state.journal import Journal
from fakes import ALICE, WRITES, BrittleJournal, CountedIds, FakeClock, Said, Say, registry_of, say

pytestmark = pytest.mark.anyio

SPEC = registry_of(("t.write", say, WRITES)).get("t.write")
FACTS = CallFacts("id-1", "t.write", ALICE, digest_of({"text": "hello", "secret": "hunter2"}))


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncGenerator[BrittleJournal]:
    journal, _ = Journal.open(str(tmp_path / "audit.db"), "audit", FakeClock(), CountedIds())
    yield BrittleJournal(journal)
    journal.close()


async def last_body(journal: BrittleJournal) -> dict[str, Any]:
    return dict((await journal.journal.after(0, 100))[-1].body)


async def test_an_intent_says_who_is_about_to_change_what(journal: BrittleJournal) -> None:
    await AuditTrail(journal).intent(FACTS, SPEC, Say(text="hello", secret="hunter2"))
    assert await last_body(journal) == {
        "call_id": "id-1",
        "tool": "t.write",
        "principal": "uid:1000",
        "client": "claude-code 2.0",
        "transport": "stdio",
        "session_id": "s1",
        "input_digest": FACTS.input_digest,
        "input": {"text": "hello"},
    }


async def test_only_safe_fields_are_stored(journal: BrittleJournal) -> None:
    await AuditTrail(journal).intent(FACTS, SPEC, Say(text="hello", secret="hunter2"))
    assert "hunter2" not in str(await journal.journal.after(0, 100))


async def test_a_safe_field_of_any_kind_can_be_written_down(journal: BrittleJournal) -> None:
    """Canonical JSON holds no integer over 53 bits and no infinity."""

    class Odd(Params):
        big: int
        wide: float
        many: tuple[int, ...]
        is_on: bool
        none: str | None

    async def odd(_params: Odd, _call: ToolCall) -> Said:
        """Be odd."""
        return Said(text="")

    registry = ToolRegistry()
    policy = replace(WRITES, safe_fields=frozenset(Odd.model_fields))
    registry.add("odd", odd, toolset="test", params=Odd, result=Said, policy=policy)
    params = Odd(big=2**80, wide=float("inf"), many=(1, 2), is_on=True, none=None)
    await AuditTrail(journal).intent(FACTS, registry.get("odd"), params)
    assert (await last_body(journal))["input"] == {
        "big": str(2**80),
        "wide": "Infinity",
        "many": "[1, 2]",
        "is_on": True,
        "none": None,
    }
    assert await journal.journal.verify() == []


@pytest.mark.parametrize(
    ("code", "outcome", "stored"),
    [
        ("success", "success", ""),
        ("cancelled", "cancelled", "cancelled"),
        ("validation_failed", "validation_error", "validation_failed"),
        ("forbidden", "forbidden", "forbidden"),
        ("rate_limited", "rate_limited", "rate_limited"),
        ("not_found", "error", "not_found"),
        ("internal_error", "error", "internal_error"),
    ],
)
async def test_an_outcome_has_the_documented_word_for_its_code(
    journal: BrittleJournal, code: str, outcome: str, stored: str
) -> None:
    await AuditTrail(journal).outcome(FACTS, code=code, duration_ms=1.23456, cached=True)
    body = await last_body(journal)
    assert (body["outcome"], body["code"]) == (outcome, stored)
    assert (body["duration_ms"], body["cached"]) == (1.235, True)


async def test_names_of_any_length_and_any_characters_are_written(journal: BrittleJournal) -> None:
    caller = replace(ALICE, client="c" * 1000)
    facts = replace(FACTS, tool="half \ud800" + "x" * 1000, caller=caller)
    await AuditTrail(journal).outcome(facts, code="not_found", duration_ms=0)
    body = await last_body(journal)
    assert body["tool"].startswith("half ?xxx")
    assert len(body["tool"]) == len(body["client"]) == 256


async def test_an_intent_that_cannot_be_written_refuses_the_change(journal: BrittleJournal) -> None:
    journal.fails_on = {"intent"}
    trail = AuditTrail(journal)
    with pytest.raises(Unavailable, match=r"^t\.write was not run: the audit log") as caught:
        await trail.intent(FACTS, SPEC, Say())
    assert caught.value.hint == "see cortex doctor"
    assert trail.last_error == "the disk is full"


async def test_an_outcome_that_cannot_be_written_is_remembered_until_one_can(
    journal: BrittleJournal, caplog: pytest.LogCaptureFixture
) -> None:
    trail = AuditTrail(journal)
    journal.fails_on = {"outcome"}
    await trail.outcome(FACTS, code="success", duration_ms=0)
    assert trail.last_error == "the disk is full"
    assert "the outcome of call id-1 was not written" in caplog.text
    journal.fails_on = set()
    await trail.outcome(FACTS, code="success", duration_ms=0)
    assert trail.last_error is None


def circle() -> list[object]:
    ring: list[object] = []
    ring.append(ring)
    return ring


def deep() -> list[object]:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    return value


def test_a_digest_depends_on_the_value_and_not_on_the_order_of_its_keys() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})
    # Fixed: records written by one version are compared by the next.
    assert digest_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("value", [None, "\ud800", {1: 1, "a": 2}, object(), circle(), deep()])
def test_anything_has_a_digest(value: object) -> None:
    assert len(digest_of(value)) == 64
