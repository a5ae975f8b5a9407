"""What is wrong with the settings, in one line: who gave it, which key, what would be right."""

import json
from difflib import get_close_matches
from types import NoneType
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from cortex.errors import SettingsError
from cortex.settings.keys import Shape, setting_keys, shape_at
from cortex.settings.sources import Given, Location, dotted, refuse
from cortex.settings.types import Url, masked_url

_MAX_SHOWN_CHARS = 60
_KINDS = {
    str: "text",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "a table",
    NoneType: "null",
}


def refusal(error: ValidationError, given: Given) -> SettingsError:
    """Say the first thing that is wrong, and how many more there are."""
    first, *others = error.errors(include_url=False)
    more = f" (and {len(others)} more)" if others else ""
    return refuse(_fault(first, given) + more)


def _fault(error: ErrorDetails, given: Given) -> str:
    location = error["loc"]
    key = dotted(location)
    origin = given.origin_at(location)
    where = f"${origin.name}" if origin.kind == "env" else origin.name or "default"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key {key}; {_suggestion(location)}"
    shape = shape_at(location)
    if error["type"] == "missing":
        return f"{where}: {key} is missing; expected {shape.words}"
    found = _found(error["input"], shape, is_hidden=location in given.hidden)
    expected = error.get("ctx", {}).get("error") if error["type"] == "value_error" else None
    return f"{where}: {key} is {found}; expected {expected or shape.words}"


def _found(value: Any, shape: Shape, *, is_hidden: bool) -> str:
    if is_hidden:
        return "not shown here"
    kind = _KINDS.get(type(value), "a date or a time")
    # Where a table belongs, a text may be anything, a URL with its password too.
    if shape.is_table or shape.core is SecretStr or isinstance(value, list | dict):
        return kind
    if isinstance(value, str):
        text = masked_url(value) if shape.mark(Url) else value
        is_long = len(text) > _MAX_SHOWN_CHARS
        return json.dumps(text[:_MAX_SHOWN_CHARS] + "…" * is_long, ensure_ascii=False)
    if isinstance(value, int) and value.bit_length() > 64:  # Python may refuse to write it
        return "a huge integer"
    return json.dumps(value) if type(value) in _KINDS else kind


def _suggestion(location: Location) -> str:
    *parents, name = location
    near = get_close_matches(str(name), shape_at(tuple(parents)).fields, n=1)
    elsewhere = [str(key) for key in setting_keys() if key.name == name]
    if near:
        return f"did you mean {dotted((*parents, near[0]))}?"
    if elsewhere:
        return f"did you mean {elsewhere[0]}?"
    return "docs/reference/settings.md lists every key"
