import pytest
from pydantic import ValidationError

from cortex.gateway.spec import Result
from fakes import Said, Say


class Part(Result):
    name: str
    note: str | None = None


def test_a_result_is_published_without_its_empty_parts() -> None:
    assert Part(name="ä").to_data() == {"name": "ä"}


def test_the_text_of_a_result_is_its_data_as_json() -> None:
    assert Part(name="ä").to_text() == '{\n  "name": "ä"\n}'


def test_parameters_and_results_cannot_be_changed() -> None:
    for value in (Say(text="a"), Said(text="a")):
        with pytest.raises(ValidationError):
            value.text = "b"  # pyright: ignore[reportAttributeAccessIssue]
