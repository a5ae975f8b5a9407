from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.clock import iso_utc
from cortex.toolsets.memory.models import Memory, Outcome
from cortex.toolsets.memory.scoring import Parts, Usage, Weights, factors, salience, tokens

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def memory(age_days: float = 0.0, **fields: object) -> Memory:
    at = iso_utc(NOW - timedelta(days=age_days))
    return Memory(id="mem_1", claim="a", created_at=at, updated_at=at, **fields)  # pyright: ignore[reportArgumentType]


def test_salience_halves_every_ninety_days() -> None:
    assert salience(memory(0), NOW) == 1.0
    assert salience(memory(90), NOW) == pytest.approx(0.5)
    assert salience(memory(180), NOW) == pytest.approx(0.25)


def test_a_helpful_use_begins_the_count_anew() -> None:
    fresh = memory(180, helpful=1, last_helpful_at=iso_utc(NOW))
    assert salience(fresh, NOW) == 1.0


def test_not_helpful_counts_four_times() -> None:
    assert salience(memory(0, not_helpful=1), NOW) == pytest.approx(1 / 5)
    assert salience(memory(0, helpful=4, not_helpful=1), NOW) == pytest.approx(5 / 9)


def test_a_clock_that_was_set_back_makes_nothing_more_alive_than_new() -> None:
    assert salience(memory(-10), NOW) == 1.0


def test_usage_is_the_same_in_any_order_of_events() -> None:
    said = [
        Outcome(session="a", result="helpful", at=iso_utc(NOW)),
        Outcome(session="a", result="not-helpful", at=iso_utc(NOW + timedelta(hours=1))),
        Outcome(session="b", result="helpful", at=iso_utc(NOW)),
        Outcome(session="c", result="helpful", at=iso_utc(NOW)),
        Outcome(session="c", result="not-helpful", at=iso_utc(NOW)),
    ]
    found = {Usage.of(order) for order in permutations(said)}
    assert found == {Usage(helpful=1, not_helpful=2, last_helpful_at=iso_utc(NOW))}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from(["helpful", "not-helpful"]), st.integers(0, 5)
        )
    ),
    st.randoms(),
)
def test_usage_never_depends_on_order(
    said: list[tuple[str, str, int]], random: st.DataObject
) -> None:
    outcomes = [
        Outcome(session=session, result=result, at=iso_utc(NOW + timedelta(hours=hour)))  # pyright: ignore[reportArgumentType]
        for session, result, hour in said
    ]
    shuffled = list(outcomes)
    random.shuffle(shuffled)  # pyright: ignore[reportAttributeAccessIssue]
    assert Usage.of(outcomes) == Usage.of(shuffled)


def test_a_score_is_the_product_of_its_parts() -> None:
    known = memory(90, trust="agent", project="/other", times_noted=4)
    about = factors(known, project="/here", now=NOW, is_stale=True)
    parts = Parts(words=0.5, meaning=None, **about)
    product = 0.5
    for value in about.values():
        product *= value
    assert parts.score == pytest.approx(product)
    assert about["validity"] < 1.0
    assert about["scope"] < 1.0
    assert about["trust"] < 1.0


def test_reviewed_ranks_above_agent_and_sound_above_stale() -> None:
    reviewed = factors(memory(trust="reviewed"), project="", now=NOW, is_stale=False)
    noted = factors(memory(trust="agent"), project="", now=NOW, is_stale=False)
    stale = factors(memory(trust="reviewed"), project="", now=NOW, is_stale=True)
    assert reviewed["trust"] > noted["trust"]
    assert reviewed["validity"] > stale["validity"]


def test_rare_words_weigh_more_and_a_full_match_more_than_half() -> None:
    weights = Weights.of({"rare": 1, "common": 30}, 100, 10.0)
    assert weights.words(["rare"]) > weights.words(["common"])
    assert weights.words(["rare", "common"]) > weights.words(["rare"])
    assert 0 < weights.words(["rare", "common"]) <= 1
    assert weights.words([]) == 0.0
    assert Weights.of({}, 0, 0.0).words(["rare"]) == 0.0


def test_the_rarest_words_are_read_first_and_one_always_is() -> None:
    weights = Weights.of({"a": 10, "b": 100, "c": 100_000, "d": 0}, 200_000, 10.0)
    assert list(weights.rare(1000)) == ["a", "b"]
    assert list(weights.rare(5)) == ["a"]
    assert weights.rare(5).keys() == {"a"}


def test_tokens_are_not_underestimated() -> None:
    assert tokens("a" * 36) == 10
    assert tokens("") == 0
