from typing import Any

import pytest

from cortex.errors import Conflict, GateClosed, NotFound
from cortex.toolsets.memory.approval import VALID_S
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.models import Evidence
from cortex.toolsets.memory.notes import Draft
from cortex.toolsets.memory.policy import Facts, Refused, Verdict, decide
from fakes import FakeClock
from remembering import PERSON, Person, agent, asked, found, noted

pytestmark = pytest.mark.anyio

COMMIT = "cortex_session_commit"


async def test_without_a_person_nothing_is_accepted(memories: Memories) -> None:
    memory = await noted(memories, "The build uses pnpm")
    with pytest.raises(GateClosed) as caught:
        await memories.review.accept([memory.id], asked())
    assert caught.value.code == "forbidden"
    assert f"cortex memory approve {memory.id}" in str(caught.value.details["hint"])
    assert (await memories.service.get(memory.id)).memory.trust == "agent"


async def test_a_person_who_answers_in_the_client_decides(memories: Memories) -> None:
    memory = await noted(memories, "The build uses pnpm")
    yes, no, away = Person(answer=True), Person(answer=False), Person(answer=None)
    for person in (no, away):
        with pytest.raises(GateClosed):
            await memories.review.accept([memory.id], asked(approver=person))
    done = await memories.review.accept([memory.id], asked(approver=yes))
    assert (done.memories[0].trust, done.memories[0].status) == ("reviewed", "active")
    assert "The build uses pnpm" in yes.questions[0]
    history = (await memories.service.get(memory.id)).history
    assert history[-1].kind == "accepted"
    assert history[-1].body["by"]["via"] == "elicitation"


async def test_a_code_works_once(memories: Memories) -> None:
    memory = await noted(memories, "The build uses pnpm")
    code = await memories.review.approve([memory.id], "accept")
    done = await memories.review.accept([memory.id], asked(code=code.lower()))
    assert done.memories[0].trust == "reviewed"
    with pytest.raises(GateClosed):
        await memories.review.accept([memory.id], asked(code=code))


async def test_a_code_is_for_exactly_these_memories_as_they_are(memories: Memories) -> None:
    one = await noted(memories, "The build uses pnpm")
    two = await noted(memories, "Tests run on Linux")
    for ids, given in (([one.id], [two.id]), ([one.id, two.id], [one.id]), ([one.id], [two.id])):
        code = await memories.review.approve(ids, "accept")
        with pytest.raises(GateClosed):
            await memories.review.accept(given, asked(code=code))
    code = await memories.review.approve([one.id], "accept")
    await memories.notes.tag(one.id, ["changed"], agent(), is_added=True)
    with pytest.raises(GateClosed):
        await memories.review.accept([one.id], asked(code=code))


async def test_a_code_to_reject_accepts_nothing(memories: Memories) -> None:
    memory = await noted(memories, "The build uses pnpm")
    code = await memories.review.approve([memory.id], "reject")
    with pytest.raises(GateClosed):
        await memories.review.accept([memory.id], asked(code=code))


async def test_a_code_is_old_after_ten_minutes(memories: Memories, clock: FakeClock) -> None:
    memory = await noted(memories, "The build uses pnpm")
    code = await memories.review.approve([memory.id], "accept")
    clock.advance(VALID_S)
    with pytest.raises(GateClosed):
        await memories.review.accept([memory.id], asked(code=code))


async def test_the_code_itself_is_not_kept(memories: Memories) -> None:
    memory = await noted(memories, "The build uses pnpm")
    code = await memories.review.approve([memory.id], "accept")
    dumped = await memories.core.database.read(lambda c: "\n".join(c.iterdump()))
    assert code.replace("-", "") not in dumped
    assert code not in dumped


async def test_automation_is_let_through_and_written_down(
    memories: Memories, caplog: pytest.LogCaptureFixture
) -> None:
    memory = await noted(memories, "The build uses pnpm")
    await memories.review.accept([memory.id], asked(is_automatic=True))
    assert "memory.auto_commit" in caplog.text
    history = (await memories.service.get(memory.id)).history
    assert history[-1].body["by"]["via"] == "auto-commit"


async def test_a_reviewed_memory_is_rejected_only_with_a_persons_yes(memories: Memories) -> None:
    mine = await noted(memories, "The build uses pnpm")
    rejected = await memories.review.reject(mine.id, "it does not", asked())
    assert (rejected.status, rejected.reason) == ("rejected", "it does not")
    theirs = await noted(memories, "Tests run on Linux", PERSON)
    with pytest.raises(GateClosed):
        await memories.review.reject(theirs.id, "no", asked("cortex_memory_reject"))
    code = await memories.review.approve([theirs.id], "reject")
    await memories.review.reject(theirs.id, "no", asked("cortex_memory_reject", code=code))
    assert await found(memories, "tests Linux") == []
    with pytest.raises(Conflict):
        await memories.review.reject(theirs.id, "no", asked(actor=PERSON))


async def test_an_agents_memory_is_superseded_at_once_and_linked_both_ways(
    memories: Memories,
) -> None:
    old = await noted(memories, "The API listens on port 8080")
    done = await memories.review.supersede(
        old.id, Draft(claim="The API listens on port 9090"), asked()
    )
    assert (done.memory.status, done.memory.supersedes) == ("active", old.id)
    ended = (await memories.service.get(old.id)).memory
    assert (ended.status, ended.superseded_by) == ("superseded", done.memory.id)
    assert await found(memories, "API port") == [done.memory.id]
    with pytest.raises(Conflict):
        await memories.review.supersede(old.id, Draft(claim="Other"), asked())
    assert (await memories.prover.verify()).is_sound


async def test_a_reviewed_memory_stands_until_a_person_accepts_the_new_one(
    memories: Memories,
) -> None:
    old = await noted(memories, "The API listens on port 8080", PERSON)
    done = await memories.review.supersede(
        old.id, Draft(claim="The API listens on port 9090"), asked()
    )
    assert done.memory.status == "pending"
    assert await found(memories, "API port") == [old.id]
    code = await memories.review.approve([done.memory.id], "accept")
    await memories.review.accept([done.memory.id], asked(code=code))
    assert await found(memories, "API port") == [done.memory.id]
    assert (await memories.service.get(old.id)).memory.superseded_by == done.memory.id


async def test_a_person_asked_about_a_new_claim_sees_what_it_replaces(memories: Memories) -> None:
    old = await noted(memories, "The API listens on port 8080", PERSON)
    person = Person(answer=True)
    done = await memories.review.supersede(
        old.id, Draft(claim="The API listens on port 9090"), asked(approver=person)
    )
    assert (done.memory.status, done.memory.trust) == ("active", "reviewed")
    assert f"takes the place of {old.id}" in person.questions[0]


async def test_to_accept_what_contradicts_a_reviewed_memory_is_forbidden(
    memories: Memories,
) -> None:
    known = await noted(memories, "The API listens on port 8080", PERSON)
    wrong = await noted(memories, "The API listens on port 9090")
    with pytest.raises(Refused) as caught:
        await memories.review.accept([wrong.id], asked(approver=Person(answer=True)))
    details = caught.value.details
    assert details["rule"] == "memory.open_contradiction"
    assert details["outcome"] == "quarantine"
    assert known.id in str(details["hint"])


async def test_stale_evidence_needs_a_person_at_a_terminal(
    memories: Memories, tmp_path: Any
) -> None:
    (tmp_path / "a.py").write_text("one\n")
    memory = await noted(
        memories, "The file says one", project=str(tmp_path),
        evidence=(Evidence(kind="file", ref="a.py", start=1, end=1),),
    )  # fmt: skip
    (tmp_path / "a.py").write_text("two\n")
    with pytest.raises(Refused) as caught:
        await memories.review.accept([memory.id], asked(approver=Person(answer=True)))
    assert caught.value.details["outcome"] == "break-glass"
    done = await memories.review.operator_accepts(memory.id, PERSON)
    assert done.memories[0].trust == "reviewed"


async def test_evidence_that_is_not_there_is_said_to_whoever_accepts(memories: Memories) -> None:
    """A session is closed before its file was read: that alone must not stop a commit."""
    memory = await noted(memories, "It was said", evidence=(Evidence(kind="event", ref="nowhere"),))
    done = await memories.review.accept([memory.id], asked(is_automatic=True))
    assert [warning.split()[1] for warning in done.warnings] == ["memory.unfounded:"]


async def test_a_memory_that_changed_while_a_person_read_it_is_not_accepted(
    memories: Memories,
) -> None:
    memory = await noted(memories, "The build uses pnpm")

    class Slow(Person):
        async def approve(self, question: str) -> bool | None:
            await memories.notes.tag(memory.id, ["other"], agent(), is_added=True)
            return await super().approve(question)

    with pytest.raises(Conflict):
        await memories.review.accept([memory.id], asked(approver=Slow(answer=True)))


async def test_commit_without_a_person_waits_and_with_one_is_reviewed(memories: Memories) -> None:
    one = await noted(memories, "The build uses pnpm", status="candidate")
    two = await noted(memories, "Tests run on Linux", status="candidate")
    done = await memories.review.commit([one.id, two.id], asked(COMMIT))
    assert not done.is_approved
    assert {memory.status for memory in done.memories} == {"pending"}
    assert await found(memories, "build pnpm tests") == []
    code = await memories.review.approve([one.id], "accept")
    done = await memories.review.commit([one.id], asked(COMMIT, code=code))
    assert done.is_approved
    assert await found(memories, "build pnpm tests") == [one.id]
    with pytest.raises(Conflict):
        await memories.review.commit([one.id], asked(COMMIT))


async def test_forget_takes_the_words_and_leaves_the_chain(
    memories: Memories, tmp_path: Any
) -> None:
    memory = await noted(memories, "Zanzibarquux is the password hint", agent("s1"))
    await memories.notes.outcome(memory.id, "helpful", "s2", agent("s2"))
    other = await noted(memories, "The build uses pnpm")
    seq = await memories.review.forget(memory.id, PERSON)
    with pytest.raises(NotFound):
        await memories.service.get(memory.id)
    proof = await memories.prover.verify()
    assert proof.is_sound
    assert (proof.records, proof.memories) == (seq, 1)
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))
    assert b"anzibarquux" not in kept
    assert other.id.encode() in kept
    assert memory.id.encode() in kept  # the tombstone


async def test_a_person_edits_and_retires(memories: Memories) -> None:
    memory = await noted(memories, "The bild uses pnpm")
    edited = await memories.review.edit(memory.id, "The build uses pnpm", None, PERSON)
    assert edited.claim == "The build uses pnpm"
    assert await found(memories, "build") == [memory.id]
    retired = await memories.review.retire(memory.id, "the project ended", PERSON)
    assert retired.status == "retired"
    assert await found(memories, "build") == []
    assert (await memories.prover.verify()).is_sound


async def test_outcomes_of_policy_are_in_order_and_the_strongest_decides(
    memories: Memories,
) -> None:
    assert [verdict.word for verdict in sorted(Verdict)] == [
        "allow",
        "warn",
        "break-glass",
        "quarantine",
        "reject",
    ]
    memory = await noted(memories, "The build uses pnpm")
    decision = decide(Facts(memory=memory, is_stale=True, rejected=[memory], is_order=True))
    assert decision.verdict == Verdict.REJECT
    assert decision.deciding is not None
    assert decision.deciding.rule == "memory.order"
    assert [finding.rule for finding in decision.findings] == [
        "memory.order",
        "memory.rejected_before",
        "memory.stale_evidence",
        "memory.no_evidence",
    ]
    plain = decide(Facts(memory=memory))
    assert (plain.verdict, plain.is_refused) == (Verdict.WARN, False)
