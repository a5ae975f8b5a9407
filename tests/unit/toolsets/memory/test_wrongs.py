"""Ten things that were wrong in an earlier memory server, each as a test that passes here."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex.edge.wire import error_object, jsonrpc_code
from cortex.errors import CortexError, GateClosed, InvalidParams
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Caller, RateLimit
from cortex.toolsets.memory import tools
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.extraction import SaidEvent
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.policy import Refused
from fakes import LIMITS, FakeClock, Gateway, open_gateway
from remembering import PERSON, Person, agent, asked, found, noted

pytestmark = pytest.mark.anyio

WRITER = Caller(
    principal="uid:1", client="claude-code 2", session_id="writing", allow_mutations=True
)
READER = replace(WRITER, session_id="reading")
TOOLS = {
    "cortex_audit_verify", "cortex_context", "cortex_memory_accept", "cortex_memory_get",
    "cortex_memory_health", "cortex_memory_list", "cortex_memory_note", "cortex_memory_outcome",
    "cortex_memory_reject", "cortex_memory_search", "cortex_memory_supersede",
    "cortex_memory_tag_add", "cortex_memory_tag_remove", "cortex_principles", "cortex_reflect",
    "cortex_session_close", "cortex_session_commit", "cortex_suggest",
}  # fmt: skip


@pytest.fixture
async def gateway(tmp_path: Path, memories: Memories, clock: FakeClock) -> AsyncIterator[Gateway]:
    """The 18 tools behind the real gateway."""
    registry = ToolRegistry()
    tools.register(registry, memories, lambda _call: None)
    limits = replace(LIMITS, rate=RateLimit(1000, 10), max_input_bytes=1_048_576)
    async with open_gateway(tmp_path, registry, clock=clock, limits=limits) as opened:
        yield opened


async def call(gateway: Gateway, tool: str, caller: Caller = WRITER, **arguments: Any) -> Any:
    """Call a tool and return its structured answer."""
    return (await gateway.call(tool, arguments, caller)).result.to_data()


async def test_wrong_1_a_note_is_not_silently_promoted(gateway: Gateway) -> None:
    """It is usable, but marked, below what was reviewed, and not for the session that wrote it."""
    note = await call(gateway, "cortex_memory_note", claim="The build uses pnpm for packages")
    assert note["trust"] == "agent"
    own = await call(gateway, "cortex_memory_search", query="build packages pnpm")
    assert own["hits"] == []
    (hit,) = (await call(gateway, "cortex_memory_search", READER, query="build pnpm"))["hits"]
    assert hit["trust"] == "agent"
    assert hit["parts"]["trust"] < 1


async def test_wrong_2_many_are_judged_as_one_is(gateway: Gateway, memories: Memories) -> None:
    """Bulk commit runs the same rules, takes only what is named, and a restart shows nothing."""
    await noted(memories, "The API listens on port 8080", PERSON)
    good = await noted(memories, "Tests run on Linux", status="candidate")
    bad = await noted(memories, "The API listens on port 9090", status="candidate")
    left = await noted(memories, "Docs are in Markdown", status="candidate")
    with pytest.raises(Refused) as one:
        await memories.review.accept([bad.id], asked(is_automatic=True))
    automatic = replace(WRITER, environ={"CORTEX_MCP_AUTO_COMMIT": "1"})
    with pytest.raises(Refused) as many:
        await call(gateway, "cortex_session_commit", automatic, ids=[good.id, bad.id])
    assert one.value.details["rule"] == many.value.details["rule"]
    assert (await memories.service.get(good.id)).memory.status == "candidate"
    await call(gateway, "cortex_session_commit", automatic, ids=[good.id])
    core = memories.core
    restarted = Memories(Core(database=core.database, clock=core.clock, ids=core.ids))
    restarted.core.open()
    assert await found(restarted, "tests docs Markdown Linux") == [good.id]
    assert (await restarted.service.get(left.id)).memory.status == "candidate"


async def test_wrong_3_a_code_is_long_used_once_and_bound(memories: Memories) -> None:
    one = await noted(memories, "The build uses pnpm")
    two = await noted(memories, "Tests run on Linux")
    code = await memories.review.approve([one.id], "accept")
    assert len(code.replace("-", "")) >= 10
    await memories.review.accept([one.id], asked(code=code))
    for ids in ([one.id], [two.id]):
        with pytest.raises(GateClosed):
            await memories.review.accept(ids, asked(code=code))


async def test_wrong_4_a_refusal_and_bad_input_can_be_told_apart(gateway: Gateway) -> None:
    note = await call(gateway, "cortex_memory_note", claim="The build uses pnpm")
    errors: list[CortexError] = []
    for arguments in ({"id": note["id"]}, {"id": note["id"], "code": ["x"]}):
        with pytest.raises(CortexError) as caught:
            await gateway.call("cortex_memory_accept", arguments, WRITER)
        errors.append(caught.value)
    assert {jsonrpc_code(error, "protocol") for error in errors} == {-32602}
    refused, invalid = (error_object(error)["error"] for error in errors)
    assert (refused["code"], invalid["code"]) == ("forbidden", "validation_failed")
    assert "cortex memory approve" in refused["details"]["hint"]
    assert invalid["details"]["issues"][0]["path"].startswith("code")


async def test_wrong_5_every_tool_is_typed_and_listed_once(gateway: Gateway) -> None:
    specs = {spec.name: spec for spec in gateway.pipeline.registry}
    assert set(specs) == TOOLS
    assert len(specs) == 18
    for spec in specs.values():
        assert spec.result.is_published
        properties = spec.result.model_json_schema(mode="serialization")["properties"]
        assert properties
        assert spec.policy.failure == "protocol"
    with pytest.raises(InvalidParams):
        await gateway.call("cortex_memory_note", {"claim": "x", "confirmed": True}, WRITER)


async def test_wrong_6_no_argument_is_taken_and_ignored(
    gateway: Gateway, memories: Memories
) -> None:
    """Each argument of a search changes what comes back."""
    await noted(memories, "The build uses pnpm", PERSON, tags=("a",))
    await noted(memories, "The build uses pnpm in CI", agent("s"), project="/elsewhere")
    everything = await call(
        gateway, "cortex_memory_search", READER, query="build pnpm", scope="all"
    )
    assert len(everything["hits"]) == 2
    for narrow in (
        {"tags": ["a"]}, {"limit": 1}, {"trust": "agent"}, {"scope": "global"}, {"query": "CI"},
    ):  # fmt: skip
        wanted = {"query": "build pnpm", "scope": "all", **narrow}
        answer = await call(gateway, "cortex_memory_search", READER, **wanted)
        assert len(answer["hits"]) == 1, narrow


async def test_wrong_7_names_say_what_is_meant(gateway: Gateway, memories: Memories) -> None:
    """Salience is not confidence, and there are tools to reject, replace and read one memory."""
    memory = await noted(memories, "The build uses pnpm", agent("s"), confidence=0.3)
    whole = await call(gateway, "cortex_memory_get", id=memory.id)
    assert (whole["confidence"], whole["salience"]) == (0.3, 1.0)
    bad = await call(gateway, "cortex_memory_outcome", id=memory.id, result="not-helpful")
    assert bad["salience"] == pytest.approx(0.2)
    new = await call(gateway, "cortex_memory_supersede", id=memory.id, claim="It uses yarn now")
    old = await call(gateway, "cortex_memory_get", id=memory.id)
    assert old["links"]["superseded_by"] == [new["id"]]
    ended = await call(gateway, "cortex_memory_reject", id=new["id"], reason="wrong")
    assert ended["status"] == "rejected"


async def test_wrong_8_every_field_and_every_change_is_in_the_chain(
    gateway: Gateway, memories: Memories
) -> None:
    memory = await noted(memories, "The build uses pnpm", agent("s"))
    await call(gateway, "cortex_memory_outcome", id=memory.id, result="helpful")
    await call(gateway, "cortex_memory_tag_add", id=memory.id, tags=["build"])
    proof = await call(gateway, "cortex_audit_verify")
    assert proof["ok"]
    assert proof["records"] == 4
    await memories.core.database.write(
        lambda c: c.execute("UPDATE memories SET client = 'forged' WHERE id = ?", (memory.id,))
    )
    proof = await call(gateway, "cortex_audit_verify")
    assert not proof["ok"]
    assert memory.id in proof["differences"][0]
    assert "client" in proof["differences"][0]


async def test_wrong_9_what_the_documents_say_is_what_the_code_does() -> None:
    """The page lists every rule of policy and extraction, by the names the code has."""
    root = Path(__file__).parents[4]
    page = (root / "docs" / "explain" / "memory.md").read_text("utf-8")
    from cortex.toolsets.memory import approval, policy, scoring
    from cortex.toolsets.memory.extraction import RULES

    source = Path(policy.__file__).read_text("utf-8")
    rules = {part.split('"')[0] for part in source.split('"memory.')[1:]} - {"commit"}
    assert len(rules) == 7
    for rule in rules:
        assert f"`memory.{rule}`" in page
    for rule in (*(rule.name for rule in RULES), "repeated failure"):
        assert f"**{rule}**" in page
    assert f"{scoring.HALF_LIFE_DAYS:.0f}-day half-life" in page
    assert f"{approval.VALID_S / 60:.0f} minutes" in page


async def test_wrong_10_what_the_user_said_comes_in_by_the_agents_way(
    gateway: Gateway, memories: Memories
) -> None:
    events = [{"id": "u1", "role": "user", "text": "From now on use tabs in Makefiles"}]
    closed = await call(gateway, "cortex_session_close", events=json.dumps(events))
    (claim,) = closed["candidates"].values()
    assert claim == "From now on use tabs in Makefiles"
    direct = await memories.sessions.close(
        [SaidEvent("u2", "user", "We decided to keep SQLite here")], "", agent()
    )
    assert direct.candidates[0].memory.evidence[0].ref == "u2"


async def test_a_session_over_one_mebibyte_is_refused_by_its_size(gateway: Gateway) -> None:
    events = [{"id": "u1", "role": "user", "text": "x" * 1_048_576}]
    with pytest.raises(CortexError) as caught:
        await gateway.call("cortex_session_close", {"events": events}, WRITER)
    assert caught.value.code == "size_limit_exceeded"


async def test_a_person_behind_a_call_can_be_asked(memories: Memories, tmp_path: Path) -> None:
    person = Person(answer=True)
    registry = ToolRegistry()
    tools.register(registry, memories, lambda _call: person)
    memory = await noted(memories, "The build uses pnpm")
    async with open_gateway(tmp_path, registry) as gateway:
        done = await call(gateway, "cortex_memory_accept", id=memory.id)
    assert done["trust"] == "reviewed"
    assert memory.claim in person.questions[0]


async def test_reading_tools_answer_in_their_shapes(gateway: Gateway, memories: Memories) -> None:
    for n, name in enumerate(("parser", "store", "bridge")):
        claim = f"Write the failing test before the fix in the {name}"
        await noted(memories, claim, PERSON, tags=(name,), confidence=0.5 + n / 10)
    pack = await call(gateway, "cortex_context", task="fix the parser test", max_tokens=64)
    assert pack["tokens"] <= 64
    assert set(pack["ids"]).isdisjoint(pack["left_out"])
    assert set(pack["left_out"].values()) <= {"budget", "says the same", "low score"}
    suggested = await call(gateway, "cortex_suggest")
    assert len(suggested["memories"]) == 3
    asked_for = await call(gateway, "cortex_suggest", query="bridge", limit=1)
    assert "bridge" in asked_for["memories"][0]["claim"]
    page = await call(gateway, "cortex_memory_list", trust="reviewed", limit=2, offset=1)
    assert (len(page["memories"]), page["total"]) == (2, 3)
    health = await call(gateway, "cortex_memory_health")
    assert health["by_status"] == {"active": 3}
    principles = await call(gateway, "cortex_principles")
    assert principles["supported"] == 1
    (principle,) = principles["principles"]
    status = await call(gateway, "cortex_principles", view="status", id=principle["id"])
    assert status["principles"] == [principle]
    counts = await call(gateway, "cortex_principles", view="status")
    assert counts["principles"] == []
    with pytest.raises(CortexError):
        await call(gateway, "cortex_principles", id="prn_none")
