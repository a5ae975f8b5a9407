from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest

from cortex.errors import Unavailable
from cortex.toolsets.memory.memories import Memories
from cortex.toolsets.memory.principles import principles
from cortex.toolsets.memory.queries import Filter
from cortex.toolsets.memory.vectors import Floats, VectorIndex
from cortex.toolsets.memory.words import terms
from fakes import FakeClock
from remembering import PERSON, READER, agent, found, noted

pytestmark = pytest.mark.anyio

DAY_S = 86_400


class WordVectors:
    """An embedder that counts words: near texts share them."""

    def __init__(self) -> None:
        self.is_away = False
        self.synonyms = {"automobil": "car"}

    async def model(self) -> str:
        if self.is_away:
            raise Unavailable("away")
        return "words"

    async def embed(self, texts: Sequence[str], mode: Literal["query", "passage"]) -> Floats:
        del mode
        made = np.zeros((len(texts), 64), np.float32)
        for i, text in enumerate(texts):
            for term in terms(text):
                word = self.synonyms.get(term, term)
                made[i, sum(word.encode()) % 64] += 1
        return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)


async def test_a_note_that_helped_nobody_is_quarantined_after_its_review_date(
    memories: Memories, clock: FakeClock
) -> None:
    used = await noted(memories, "The build uses pnpm", agent("s1"))
    unused = await noted(memories, "Tests run on Linux", agent("s1"))
    reviewed = await noted(memories, "Docs are in Markdown", PERSON)
    clock.advance(29 * DAY_S)
    assert (await memories.upkeep.decay()).quarantined == ()
    await memories.notes.outcome(used.id, "helpful", "s2", agent("s2"))
    clock.advance(2 * DAY_S)
    dry = await memories.upkeep.decay(is_dry=True)
    assert dry.quarantined == (unused.id,)
    assert (await memories.service.get(unused.id)).memory.status == "active"
    done = await memories.upkeep.decay()
    assert (done.seen, done.quarantined) == (3, (unused.id,))
    assert (await memories.service.get(unused.id)).memory.reason == "unused past its review date"
    assert set(await found(memories, "build tests docs Markdown")) == {used.id, reviewed.id}
    assert (await memories.upkeep.decay()).quarantined == ()
    assert (await memories.prover.verify()).is_sound


async def test_a_faded_memory_is_put_up_for_review_and_never_deleted(
    memories: Memories, clock: FakeClock
) -> None:
    memory = await noted(memories, "The build uses pnpm", PERSON)
    clock.advance(181 * DAY_S)
    assert (await memories.upkeep.decay()).review_wanted == (memory.id,)
    assert (await memories.upkeep.decay()).review_wanted == ()
    waiting, total = await memories.service.list(Filter(review_wanted=True), limit=9, offset=0)
    assert total == 1
    assert waiting[0].status == "active"
    accepted = await memories.review.operator_accepts(memory.id, PERSON)
    assert accepted.memories[0].review_wanted == ""
    assert (await memories.upkeep.decay()).review_wanted == ()


async def test_health_counts_and_names_what_needs_a_look(memories: Memories) -> None:
    one = await noted(memories, "The API listens on port 8080", PERSON)
    two = await noted(memories, "The API listens on port 9090", agent())
    three = await noted(memories, "Tests run on Linux", agent())
    health = await memories.service.health()
    assert health.by_status == {"active": 2, "quarantined": 1}
    assert health.unvalidated == 1
    assert set(health.contradicted[0]) == {one.id, two.id}
    assert health.secrets == ([], 0)
    assert three.id not in health.contradicted[0]


async def test_what_means_the_same_is_found_without_a_shared_word(memories: Memories) -> None:
    memories.core.embedder = WordVectors()
    memory = await noted(memories, "automobile maintenance happens yearly", PERSON)
    assert await found(memories, "car") == [memory.id]
    (hit,) = await memories.service.search("car", READER, 5)
    assert hit.parts.words == 0.0
    assert hit.parts.meaning is not None
    assert hit.parts.meaning > 0


async def test_vectors_are_made_for_what_was_written_before_there_was_an_embedder(
    memories: Memories,
) -> None:
    memory = await noted(memories, "automobile maintenance happens yearly", PERSON)
    assert await found(memories, "car") == []
    memories.core.embedder = WordVectors()
    assert await memories.upkeep.embed() == 1
    assert await memories.upkeep.embed() == 0
    assert await found(memories, "car") == [memory.id]
    await memories.review.forget(memory.id, PERSON)
    assert await found(memories, "car") == []


async def test_words_do_while_the_embedder_is_away(memories: Memories) -> None:
    embedder = WordVectors()
    memories.core.embedder = embedder
    embedder.is_away = True
    memory = await noted(memories, "automobile maintenance happens yearly", PERSON)
    assert await found(memories, "automobile") == [memory.id]


def test_an_index_grows_and_forgets() -> None:
    index = VectorIndex("m")
    assert index.against(np.ones(4, np.float32)).nearest(3) == []
    for row in range(1, 3001):
        vector = np.zeros(4, np.float32)
        vector[row % 4] = 1.0
        index.put(row, vector)
    assert len(index) == 3000
    probe = np.array([1, 0, 0, 0], np.float32)
    assert all(row % 4 == 0 for row in index.against(probe).nearest(5))
    index.drop(4)
    likeness = index.against(probe)
    assert 4 not in likeness.nearest(3000)
    assert (likeness.cosine(8), likeness.meaning(8)) == (1.0, 1.0)
    assert likeness.meaning(9) == 0.0
    assert likeness.meaning(9999) is None


def test_a_large_index_finds_the_nearest_by_a_rough_look_first() -> None:
    random = np.random.default_rng(3)
    made = random.standard_normal((20_500, 384)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    probe = made[0]
    made[100:110] = 0.6 * probe + 0.8 * made[100:110]  # ten that mean nearly the same
    index = VectorIndex("m")
    for row, vector in enumerate(made):
        index.put(row, vector)
    nearest = index.against(probe).nearest(11)
    assert nearest[0] == 0
    assert set(nearest) == {0, *range(100, 110)}


async def test_three_reviewed_memories_of_two_domains_make_a_principle(
    memories: Memories,
) -> None:
    claims = [
        ("Write the failing test before the fix in the parser", "parser"),
        ("Write the failing test before the fix in the store", "store"),
        ("Write the failing test before the fix in the bridge", "parser"),
    ]
    for claim, tag in claims[:2]:
        await noted(memories, claim, PERSON, tags=(tag,))
    await noted(memories, "The moon is far away", PERSON, tags=("space",))
    (candidate,) = await memories.principles()
    assert not candidate.is_supported
    await noted(memories, claims[2][0], PERSON, tags=(claims[2][1],))
    (principle,) = await memories.principles()
    assert principle.is_supported
    assert len(principle.memories) == 3
    assert principle.domains == ("parser", "store")
    assert principle.claim in [claim for claim, _ in claims]


async def test_agents_notes_alone_make_no_principle(memories: Memories) -> None:
    for name in ("parser", "store", "bridge"):
        claim = f"Write the failing test before the fix in the {name}"
        await noted(memories, claim, agent(name), tags=(name,))
    assert await memories.principles() == []
    assert principles([]) == []
