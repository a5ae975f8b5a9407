from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.errors import InvalidParams
from cortex.gateway.arguments import size_bytes, validate
from cortex.gateway.spec import Params

SECRET = "hunter2-hunter2"


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Exact(Params):
    """As operations declares them: out of range is refused."""

    count: Annotated[int, Field(ge=1, le=300)] = 5
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    is_on: bool = False
    kind: Literal["a", "b"] = "a"
    words: tuple[str, ...] = ()
    numbers: list[int] | None = None
    labels: dict[str, int] | None = None
    text: str = ""
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None


class Search(Params):
    """As retrieval tools declare them: out of range is pulled to the bound."""

    clamps = True

    query: str
    limit: Annotated[int, Field(ge=1, le=50)] = 10
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    least: Annotated[int, Field(ge=3)] = 3
    maybe: Annotated[int | None, Field(le=5)] = None


class Camel(Params):
    model_config = ConfigDict(alias_generator=to_camel)

    sample_window: int = 5


def refusal(model: type[Params], raw: object) -> InvalidParams:
    with pytest.raises(InvalidParams) as caught:
        validate(model, raw)
    return caught.value


def issues(error: InvalidParams) -> list[dict[str, Any]]:
    return error.details["issues"]  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize(
    ("field", "sent", "means"),
    [
        ("count", "5", 5),
        ("count", " 7 ", 7),
        ("count", 5.0, 5),
        ("is_on", "true", True),
        ("is_on", "False", False),
        ("is_on", 1, True),
        ("words", '["a", "b"]', ("a", "b")),
        ("words", " [] ", ()),
        ("words", "a, b,,c ", ("a", "b", "c")),
        ("words", "a", ("a",)),
        ("words", "", ()),
        ("words", ["a,b"], ("a,b",)),
        ("numbers", "1,2", [1, 2]),
        ("numbers", "[1, 2]", [1, 2]),
        ("labels", '{"a": "1"}', {"a": 1}),
        ("labels", {"a": 1}, {"a": 1}),
        ("text", "[1]", "[1]"),
        ("text", "a,b", "a,b"),
    ],
)
def test_what_models_send_sloppily_is_understood(field: str, sent: object, means: object) -> None:
    assert getattr(validate(Exact, {field: sent}), field) == means


@pytest.mark.parametrize("field", list(Exact.model_fields))
def test_null_means_nothing_where_an_argument_may_be_left_out(field: str) -> None:
    assert validate(Exact, {field: None}) == Exact()


def test_null_for_a_required_argument_is_refused() -> None:
    assert issues(refusal(Search, {"query": None}))[0]["path"] == "query"


@pytest.mark.parametrize("raw", [None, {}])
def test_no_arguments_are_the_defaults(raw: object) -> None:
    assert validate(Exact, raw) == Exact()


@pytest.mark.parametrize("raw", [[], "text", 5, True])
def test_arguments_that_are_no_object_are_refused(raw: object) -> None:
    assert refusal(Exact, raw).message == "Arguments must be an object"


@pytest.mark.parametrize("alias", ["sampleWindow", "sample_window"])
def test_an_argument_may_be_named_as_published_or_as_declared(alias: str) -> None:
    assert validate(Camel, {alias: "7"}).sample_window == 7


@pytest.mark.parametrize(
    ("field", "sent", "means"),
    [
        ("limit", 500, 50),
        ("limit", "500", 50),
        ("limit", "500.0", 50),
        ("limit", -3, 1),
        ("limit", 10**400, 50),
        ("limit", float("inf"), 50),
        ("limit", "7", 7),
        ("limit", "9" * 5000, 50),
        ("limit", True, 1),
        ("share", 1.5, 1.0),
        ("share", "-0.5", 0.0),
        ("least", -1, 3),
        ("least", 99, 99),
        ("maybe", 9, 5),
        ("maybe", None, None),
    ],
)
def test_a_retrieval_tool_pulls_a_number_to_its_bound(
    field: str, sent: object, means: object
) -> None:
    assert getattr(validate(Search, {"query": "q", field: sent}), field) == means


@pytest.mark.parametrize("text", ["42", "007", "1e9", "nan"])
def test_a_text_that_looks_like_a_number_stays_the_text_that_was_sent(text: str) -> None:
    assert validate(Search, {"query": text}).query == text


@pytest.mark.parametrize("sent", ["many", [3], {"at": 3}, "nan"])
def test_what_is_no_number_is_not_pulled_to_a_bound(sent: object) -> None:
    assert issues(refusal(Search, {"query": "q", "limit": sent}))[0]["path"] == "limit"


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"count": 0}, {"path": "count", "code": "greater_than_equal", "ge": 1}),
        ({"count": "301"}, {"path": "count", "code": "less_than_equal", "le": 300}),
        ({"share": 0}, {"path": "share", "code": "greater_than", "gt": 0.0}),
        ({"share": 1}, {"path": "share", "code": "less_than", "lt": 1.0}),
        ({"kind": "c"}, {"path": "kind", "code": "literal_error", "expected": "'a' or 'b'"}),
        ({"numbers": "1,x"}, {"path": "numbers.1", "code": "int_parsing"}),
        ({"words": '["a"'}, {"path": "words", "code": "tuple_type"}),
        ({"labels": "{a}"}, {"path": "labels", "code": "dict_type"}),
    ],
)
def test_an_operation_refuses_what_is_out_of_range_and_says_what_is_accepted(
    sent: dict[str, object], says: dict[str, object]
) -> None:
    issue = issues(refusal(Exact, sent))[0]
    assert {key: issue[key] for key in says} == says


def test_an_unknown_argument_names_the_accepted_ones() -> None:
    error = refusal(Camel, {"window": 5})
    assert error.message == "window: is not an argument of this tool"
    assert issues(error) == [
        {
            "path": "window",
            "code": "extra_forbidden",
            "message": "is not an argument of this tool",
            "accepted": ["sampleWindow"],
        }
    ]


def test_every_issue_is_named_and_the_first_is_in_the_message() -> None:
    error = refusal(Exact, {"count": "x", "is_on": "maybe", "kind": "c"})
    assert [issue["path"] for issue in issues(error)] == ["count", "is_on", "kind"]
    assert error.message.endswith("(and 2 more)")


def test_a_thousand_unknown_arguments_get_a_short_answer() -> None:
    error = refusal(Exact, {f"{'x' * 1000}{n}": 1 for n in range(1000)})
    assert error.message.endswith("(and 999 more)")
    assert size_bytes(error.details) < 20_000


REFUSED: list[dict[str, object]] = [
    {"count": SECRET},
    {"share": [SECRET]},
    {"is_on": SECRET},
    {"kind": SECRET},
    {"words": f'["{SECRET}"'},
    {"words": [{"a": SECRET}]},
    {"numbers": SECRET},
    {"numbers": f"1,{SECRET}"},
    {"labels": SECRET},
    {"labels": {"a": SECRET}},
    {"text": [SECRET]},
    {"pet": SECRET},
    {"pet": {"kind": SECRET}},
    {"nope": SECRET},
]


@pytest.mark.parametrize("sent", REFUSED)
def test_what_was_sent_is_never_repeated(sent: dict[str, object]) -> None:
    """The values may be secrets; the sender has them anyway."""
    error = refusal(Exact, sent)
    assert SECRET not in str(error)
    assert SECRET not in str(error.details)
    assert error.__cause__ is None


def test_an_unknown_tag_is_answered_with_the_known_ones() -> None:
    """Pydantic's own message quotes the tag."""
    assert "must name one of 'cat', 'dog'" in refusal(Exact, {"pet": {"kind": SECRET}}).message


@pytest.mark.parametrize(
    ("value", "size"), [({}, 2), ({"a": "ä"}, 10), ("\ud800", 5), ([1, 2], 5), (float("nan"), 3)]
)
def test_size_is_counted_as_on_the_wire(value: object, size: int) -> None:
    assert size_bytes(value) == size
