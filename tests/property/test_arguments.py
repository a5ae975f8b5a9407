import json
from typing import Annotated, Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from cortex.errors import InvalidParams
from cortex.gateway.arguments import validate
from cortex.gateway.audit import digest_of
from cortex.gateway.spec import Params

# Machines are busy: the time of one example says nothing.
UNHURRIED = settings(deadline=None, max_examples=200)

SECRET = "\u2620secret\u2620"


class Exact(Params):
    count: Annotated[int, Field(ge=1, le=300)] = 5
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    is_on: bool = False
    kind: Literal["a", "b"] = "a"
    words: tuple[str, ...] = ()
    numbers: list[int] | None = None
    labels: dict[str, int] | None = None
    text: str = ""


class Clamped(Exact):
    clamps = True


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers() | st.floats()
WORDS = st.sampled_from(["true", "no", "null", "5", "-1", "1e400", "[1,2]", "a,b", '{"a":1}', "["])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | WORDS | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.sampled_from(list(Exact.model_fields)) | TEXT, JSON, max_size=5)
MODELS = st.sampled_from([Exact, Clamped])


def outcome(model: type[Exact], raw: object) -> Exact | InvalidParams:
    """Validate; only InvalidParams is caught, so that nothing else can come out of it."""
    try:
        return validate(model, raw)
    except InvalidParams as error:
        return error


@UNHURRIED
@given(MODELS, ARGUMENTS | JSON)
def test_anything_is_understood_or_refused_in_one_line_without_repeating_it(
    model: type[Exact], raw: Any
) -> None:
    result = outcome(model, raw)
    if isinstance(result, InvalidParams):
        keys = list(raw) if isinstance(raw, dict) else []
        if not any(SECRET in str(key) for key in keys):
            assert SECRET not in f"{result} {result.details}"
        json.dumps(result.details)


@UNHURRIED
@given(MODELS, ARGUMENTS)
def test_what_was_understood_means_the_same_when_said_again(
    model: type[Exact], raw: dict[str, Any]
) -> None:
    """Hence `{}` and the defaults said aloud are one entry of the cache."""
    result = outcome(model, raw)
    if isinstance(result, Exact):
        assert validate(model, result.model_dump()) == result
        assert validate(model, json.loads(result.model_dump_json())) == result


@UNHURRIED
@given(NUMBERS.filter(lambda n: n == n) | NUMBERS.map(str))  # noqa: PLR0124  # NaN
def test_a_number_for_a_retrieval_tool_is_never_out_of_range(number: Any) -> None:
    for field in ("count", "share"):
        result = outcome(Clamped, {field: number})
        if isinstance(result, InvalidParams):
            assert "less_than" not in str(result.details) or "nan" in str(number)
            assert "greater_than" not in str(result.details)


@UNHURRIED
@given(st.lists(TEXT.filter(lambda t: "," not in t and t.strip()), min_size=1, max_size=5))
def test_a_list_may_come_as_json_or_with_commas(words: list[str]) -> None:
    assert validate(Exact, {"words": json.dumps(words)}).words == tuple(words)
    joined = ",".join(words)
    if not joined.strip().startswith("["):
        assert validate(Exact, {"words": joined}).words == tuple(w.strip() for w in words)


@UNHURRIED
@given(JSON, JSON)
def test_digests_are_equal_for_equal_values_only(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (digest_of(one) == digest_of(other)) == same
