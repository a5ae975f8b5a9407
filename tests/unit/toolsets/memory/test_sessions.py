import pytest

from cortex.errors import NotFound, Unavailable
from cortex.toolsets.memory.evidence import EvidenceCheck
from cortex.toolsets.memory.extraction import RULES, Extracted, Role, SaidEvent, extract
from cortex.toolsets.memory.memories import Memories
from remembering import PastSessions, agent, found

pytestmark = pytest.mark.anyio


def said(role: Role, text: str, uid: str = "e1") -> SaidEvent:
    return SaidEvent(uid, role, text)


@pytest.mark.parametrize(
    ("role", "text", "rule"),
    [
        ("user", "No, use the other database driver here", "correction"),
        ("user", "Don't touch the generated files", "correction"),
        ("user", "I always want tests beside the code", "preference"),
        ("user", "From now on write changelog entries", "preference"),
        ("user", "We decided to keep SQLite for state", "decision"),
        ("assistant", "Let's go with the streaming parser", "decision"),
        ("assistant", "The root cause was a stale lock file", "cause"),
    ],
)
def test_each_rule_hears_what_it_is_for(role: Role, text: str, rule: str) -> None:
    assert [item.rule for item in extract([said(role, text)])] == [rule]


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("user", "Can you look at the parser?"),
        ("user", "Do we always want tests here?"),
        ("assistant", "I always want to help"),
        ("assistant", "Running the tests now"),
        ("user", "No"),
        ("user", "```\nwe decided to keep this out\n```"),
    ],
)
def test_questions_code_and_small_talk_are_no_claims(role: Role, text: str) -> None:
    assert extract([said(role, text)]) == []


def test_a_failure_counts_when_it_comes_back() -> None:
    line = "ModuleNotFoundError: No module named 'yaml'"
    events = [said("tool", f"trace\n{line}\n", f"t{n}") for n in range(3)]
    assert extract(events[:2]) == []
    (item,) = extract(events)
    assert item.rule == "repeated failure"
    assert line in item.claim
    assert item.events == ("t0", "t1", "t2")


def test_the_same_words_twice_are_one_claim_with_two_events() -> None:
    text = "We decided to keep SQLite for state"
    (item,) = extract([said("user", text, "a"), said("assistant", f"{text}.", "b")])
    assert item == Extracted(text, "decision", 0.7, ("a", "b"))


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


async def test_a_session_leaves_candidates_with_evidence_that_nobody_is_given(
    memories: Memories, past: PastSessions
) -> None:
    past.say("s1", "u1", "user", "From now on use tabs")
    events = [
        said("user", "From now on use tabs in Makefiles", "u1"),
        said("user", "From now on use tabs in Makefiles", "u1"),
        said("assistant", "Sure.", "a1"),
    ]
    closed = await memories.sessions.close(events, "/p", agent("s1", "/p"))
    assert (closed.events, closed.repeated) == (2, 1)
    (candidate,) = closed.candidates
    assert candidate.memory.status == "candidate"
    assert candidate.memory.tags == ("preference",)
    assert candidate.memory.evidence[0].ref == "u1"
    assert candidate.memory.evidence[0].is_checked
    assert await found(memories, "tabs Makefiles") == []
    again = await memories.sessions.close(events, "/p", agent("s1", "/p"))
    assert [noted.memory.id for noted in again.candidates] == [candidate.memory.id]
    assert (await memories.prover.verify()).memories == 1


async def test_a_secret_in_a_session_is_refused_and_the_rest_is_kept(memories: Memories) -> None:
    events = [
        said("user", "I always want the key sk-secret in the header", "u1"),
        said("user", "I always want two spaces in YAML", "u2"),
    ]
    closed = await memories.sessions.close(events, "", agent())
    assert closed.refused == ("memory.secret",)
    assert len(closed.candidates) == 1


async def test_reflection_reads_a_past_session_and_writes_nothing(
    memories: Memories, past: PastSessions
) -> None:
    past.say("old", "u1", "user", "We decided to keep SQLite for state")
    past.say("new", "u2", "user", "Please never force push")
    newest = await memories.sessions.reflect("", "")
    assert (newest.session, newest.events) == ("new", 1)
    assert newest.candidates[0].rule == "preference"
    older = await memories.sessions.reflect("old", "")
    assert older.candidates[0].events == ("u1",)
    assert (await memories.prover.verify()).records == 1
    with pytest.raises(NotFound):
        await memories.sessions.reflect("none", "")


async def test_reflection_without_conversations_says_so(memories: Memories) -> None:
    memories.core.checks = EvidenceCheck()
    with pytest.raises(Unavailable):
        await memories.sessions.reflect("", "")


async def test_reflection_on_nothing_says_so(memories: Memories) -> None:
    with pytest.raises(NotFound):
        await memories.sessions.reflect("", "")
