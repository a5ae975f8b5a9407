"""From what a model sent to valid arguments: forgiving where the meaning is plain, else exact."""

import contextlib
import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import annotated_types
import orjson
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from cortex.errors import InvalidParams
from cortex.gateway.spec import Params

P = TypeVar("P", bound=Params)

_LISTS = (list, tuple, set, frozenset)
# A thousand wrong arguments are not answered with a thousand lines, nor a long name with itself.
_MAX_ISSUES = 20
_MAX_PATH = 128


def validate(model: type[P], raw: object) -> P:
    """Turn raw arguments into the tool's parameters, or say which field wants what."""
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        raise InvalidParams("Arguments must be an object")
    given = _lenient(model, cast("Mapping[str, object]", raw))
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        issues = [_issue(model, dict(details)) for details in found[:_MAX_ISSUES]]
        first = issues[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise InvalidParams(f"{first['path']}: {first['message']}{more}", issues=issues) from None


def size_bytes(value: object) -> int:
    """Return how many bytes a JSON value takes on the wire."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return len(text.encode("utf-8", "surrogatepass"))


def _lenient(model: type[Params], raw: Mapping[str, object]) -> dict[str, object]:
    fields = {(f.alias or name): f for name, f in model.model_fields.items()}
    fields |= model.model_fields
    given: dict[str, object] = {}
    for key, sent in raw.items():
        known = fields.get(key)
        value = sent
        if known is not None:
            # A null for what may be left out is what many models send for "nothing".
            if value is None and not known.is_required():
                continue
            value = _structured(known, value)
            if model.clamps:
                value = _clamped(known, value)
        given[key] = value
    return given


def _structured(known: FieldInfo, value: object) -> object:
    """Read a list or an object that came as a string: JSON, or a comma list."""
    if not isinstance(value, str):
        return value
    wants_list, wants_object = _wants(known.annotation, _LISTS), _wants(known.annotation, (dict,))
    text = value.strip()
    if (wants_list and text.startswith("[")) or (wants_object and text.startswith("{")):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return value
    if wants_list:
        return [part.strip() for part in text.split(",") if part.strip()]
    return value


def _wants(annotation: object, kinds: tuple[type, ...]) -> bool:
    """Tell whether an annotation is one of these containers, or a union with one of them."""
    origin = get_origin(annotation) or annotation
    if isinstance(origin, type) and issubclass(origin, kinds):
        return True
    is_union = origin in (Union, UnionType)
    return is_union and any(_wants(part, kinds) for part in get_args(annotation))


def _clamped(known: FieldInfo, value: object) -> object:
    low = [cast("float", b.ge) for b in known.metadata if isinstance(b, annotated_types.Ge)]
    high = [cast("float", b.le) for b in known.metadata if isinstance(b, annotated_types.Le)]
    # Without a bound nothing is read as a number: "42" is a fine text to search for.
    number = _number(value) if low or high else None
    if number is None:
        return value
    return min([max([number, *low]), *high])


def _number(value: object) -> float | None:
    if isinstance(value, str):
        for read in (int, float):
            with contextlib.suppress(ValueError):
                return read(value)
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def _issue(model: type[Params], details: dict[str, Any]) -> dict[str, object]:
    path = ".".join(str(part) for part in details["loc"]) or "arguments"
    context = details.get("ctx", {})
    issue: dict[str, object] = {
        "path": path[:_MAX_PATH],
        "code": details["type"],
        "message": details["msg"],
    }
    # What was sent is not repeated: it may hold a secret, and the sender has it.
    if details["type"] == "extra_forbidden":
        accepted = sorted(f.alias or name for name, f in model.model_fields.items())
        issue |= {"message": "is not an argument of this tool", "accepted": accepted}
    elif details["type"] == "union_tag_invalid":  # the one message of pydantic that quotes
        issue |= {"message": f"must name one of {context['expected_tags']}"}
    issue |= {key: context[key] for key in ("expected", "ge", "le", "gt", "lt") if key in context}
    return issue
