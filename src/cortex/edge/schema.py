"""Published JSON schemas: what pydantic generates, without what only costs a model tokens."""

from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode


def published_schema(model: type[BaseModel], mode: JsonSchemaMode) -> dict[str, Any]:
    """Return the schema of a model: references resolved, titles gone, `| None` folded away."""
    raw = model.model_json_schema(by_alias=True, mode=mode, schema_generator=GenerateJsonSchema)
    definitions = cast("dict[str, Any]", raw.pop("$defs", {}))
    raw.pop("description", None)  # the docstring of the model is for us; the tool has its own
    return cast("dict[str, Any]", _lean(raw, definitions))


def _lean(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_lean(item, definitions) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, Any]", node)
    if "$ref" in fields:
        target = definitions[str(fields["$ref"]).rsplit("/", 1)[1]]
        rest = {key: value for key, value in fields.items() if key != "$ref"}
        return _lean({**target, **rest}, definitions)
    if "anyOf" in fields:
        choices = [choice for choice in fields["anyOf"] if choice != {"type": "null"}]
        if len(choices) == 1:
            rest = {key: value for key, value in fields.items() if key != "anyOf"}
            if rest.get("default", 0) is None:
                del rest["default"]
            return _lean({**choices[0], **rest}, definitions)
    lean: dict[str, Any] = {}
    for key, value in fields.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties":
            lean[key] = {name: _lean(item, definitions) for name, item in value.items()}
        else:
            lean[key] = _lean(value, definitions)
    return lean
