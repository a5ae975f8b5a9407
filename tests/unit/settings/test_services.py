from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from cortex.settings.services import DeclaredServices, ServiceSettings

ADAPTER: TypeAdapter[dict[str, ServiceSettings]] = TypeAdapter(DeclaredServices)


def declared(**services: dict[str, Any]) -> dict[str, ServiceSettings]:
    return ADAPTER.validate_python({n: {"command": ["x"], **t} for n, t in services.items()})


def test_only_a_command_is_needed() -> None:
    one = declared(web={})["web"]
    assert one.command == ("x",)
    assert (one.autostart, one.restart, one.stop_timeout_ms) == (True, "on-failure", 5000)
    assert (one.cwd, one.env, one.health, one.depends_on) == (None, {}, None, ())


def test_services_come_after_what_they_depend_on() -> None:
    services = declared(a={"depends_on": ["b", "c"]}, b={"depends_on": ["c"]}, c={})
    assert list(services) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("services", "words"),
    [
        ({"a": {"depends_on": ["b"]}, "b": {"depends_on": ["a"]}}, "in a circle"),
        ({"a": {"depends_on": ["a"]}}, "in a circle"),
        ({"a": {"depends_on": ["z"]}}, "a depends on 'z'"),
        ({"daemon": {}}, "neither daemon and stderr"),
        ({"Web": {}}, "small letters"),
        ({"../up": {}}, "small letters"),
        ({"a": {"command": []}}, "at least 1 item"),
        ({"a": {"command": ["x\0"]}}, "without NUL"),
        ({"a": {"command": "x y"}}, "valid tuple"),
        ({"a": {"cwd": "here"}}, "absolute path"),
        ({"a": {"env": {"A=B": "c"}}}, "environment variable"),
        ({"a": {"restart": "sometimes"}}, "'always', 'on-failure' or 'never'"),
        ({"a": {"stop_timeout_ms": 60_001}}, "less than or equal to 60000"),
        ({"a": {"health": {}}}, "exactly one of command, http and tcp"),
        ({"a": {"health": {"tcp": "h:1", "command": ["y"]}}}, "exactly one of"),
        ({"a": {"health": {"tcp": "5432"}}}, "host:port"),
        ({"a": {"health": {"tcp": "h:0"}}}, "host:port"),
        ({"a": {"health": {"tcp": "h:1", "interval_ms": 99}}}, "greater than or equal to 100"),
        ({"a": {"shell": True}}, "Extra inputs"),
    ],
)
def test_a_wrong_declaration_is_refused_with_what_would_be_right(
    services: dict[str, dict[str, Any]], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        declared(**services)
