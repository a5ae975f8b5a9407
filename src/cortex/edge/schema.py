"""Published JSON schemas: what pydantic generates, without what only costs a model tokens."""

from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from cortex.errors import ToolDefinitionError

# What stands here is data, not schema.
_VALUES = frozenset({"default", "const", "enum", "examples"})


def published_schema(model: type[BaseModel], mode: JsonSchemaMode) -> dict[str, Any]:
    """Return the schema of a model: references resolved, titles gone, `| None` folded away."""
    raw = model.model_json_schema(by_alias=True, mode=mode, schema_generator=GenerateJsonSchema)
    definitions = cast("dict[str, Any]", raw.pop("$defs", {}))
    raw.pop("description", None)  # the docstring of the model is for us; the tool has its own
    try:
        return cast("dict[str, Any]", _lean(raw, definitions))
    except RecursionError:
        raise ToolDefinitionError(
            f"{model.__name__} holds itself: no flat schema can be published"
        ) from None


def _lean(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_lean(item, definitions) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    lean: dict[str, Any] = {}
    for key, value in _resolved(cast("dict[str, Any]", node), definitions).items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties":
            lean[key] = {name: _lean(item, definitions) for name, item in value.items()}
        else:
            lean[key] = value if key in _VALUES else _lean(value, definitions)
    return lean


def _resolved(fields: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Put what a reference means in its place, and a type in the place of `type | None`."""
    if "$ref" in fields:
        target = definitions[str(fields["$ref"]).rsplit("/", 1)[1]]
        rest = {key: value for key, value in fields.items() if key != "$ref"}
        return _resolved({**target, **rest}, definitions)
    choices = [choice for choice in fields.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return fields
    rest = {key: value for key, value in fields.items() if key != "anyOf"}
    if rest.get("default", 0) is None:
        del rest["default"]
    return _resolved({**choices[0], **rest}, definitions)
