from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.edge.schema import published_schema
from cortex.errors import ToolDefinitionError


class Point(BaseModel):
    """A place."""

    x_axis: int = 0


class Shape(BaseModel):
    """For us, not for agents."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    title: Annotated[str, Field(description="A property that is called title.")]
    first_point: Annotated[Point, Field(description="Where it begins.")]
    more: list[Point] = []
    last: Annotated[Point | None, Field(description="Where it ends.")] = None
    note: str | None = None
    either: int | str | None = None
    count: int | None = 3


def properties() -> dict[str, Any]:
    return published_schema(Shape, "validation")["properties"]


def test_references_are_replaced_by_what_they_name() -> None:
    point = {"type": "object", "properties": {"x_axis": {"type": "integer", "default": 0}}}
    assert properties()["firstPoint"] == {**point, "description": "Where it begins."}
    assert properties()["more"]["items"] == {**point, "description": "A place."}
    assert "$defs" not in published_schema(Shape, "validation")


def test_titles_are_dropped_but_not_a_property_of_that_name() -> None:
    schema = published_schema(Shape, "validation")
    assert "title" not in schema
    assert properties()["title"] == {
        "type": "string",
        "description": "A property that is called title.",
    }
    assert schema["required"] == ["title", "firstPoint"]


def test_the_docstring_of_a_model_is_not_published() -> None:
    assert "description" not in published_schema(Shape, "validation")


def test_an_optional_value_is_published_as_the_value() -> None:
    assert properties()["note"] == {"type": "string"}
    assert properties()["count"] == {"type": "integer", "default": 3}
    assert properties()["last"]["description"] == "Where it ends."
    assert properties()["last"]["type"] == "object"


def test_a_choice_of_several_keeps_its_choices() -> None:
    types = [choice["type"] for choice in properties()["either"]["anyOf"]]
    assert types == ["integer", "string", "null"]


def test_names_are_those_of_the_wire() -> None:
    assert "firstPoint" in properties()
    assert "firstPoint" in published_schema(Shape, "serialization")["properties"]


class Titled(BaseModel):
    where: dict[str, str] = {"title": "kept"}


class Tree(BaseModel):
    children: "list[Tree]" = []


def test_a_default_is_published_as_it_is() -> None:
    assert published_schema(Titled, "validation")["properties"]["where"]["default"] == {
        "title": "kept"
    }


def test_a_model_that_holds_itself_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="Tree holds itself"):
        published_schema(Tree, "validation")
