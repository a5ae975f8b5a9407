"""The keys of `Settings` as rows of data: for messages, `config show` and the documentation."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from cortex.settings.models import Settings
from cortex.settings.types import Unset, Url

Mark = TypeVar("Mark")

# The names that others gave to two of our keys; CORTEX_<SECTION>__<KEY> goes before them.
ALIASES = {
    "CORTEX_MCP_ALLOW_MUTATIONS": "policy.allow_mutations",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "telemetry.otlp_endpoint",
}

# What a Moraine file may hold that has no meaning here: accepted, and said to be ignored.
MORAINE_SECTIONS = ("backend", "backends", "identity", "monitor", "routes", "runtime")
MORAINE_KEYS = (
    "clickhouse.allow_newer_server",
    "ingest.ack_observation",
    "ingest.heartbeat_interval_seconds",
    "ingest.max_inflight_batches",
    "ingest.state_dir",
    "mcp.central_connect_timeout_ms",
    "mcp.central_socket_path",
    "mcp.max_parallel_requests",
    "mcp.prewarm_on_initialize",
    "mcp.protocol_version",
    "mcp.use_central_server",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a key accepts: its type without `Annotated` and `| None`, and the marks these held."""

    core: Any
    marks: tuple[object, ...]

    @classmethod
    def of(cls, annotation: Any, marks: tuple[object, ...] = ()) -> "Shape":
        """Take an annotation apart."""
        if get_origin(annotation) is Annotated:
            inner, *more = get_args(annotation)
            return cls.of(inner, (*_flat(more), *marks))
        if get_origin(annotation) in {Union, UnionType}:
            (inner,) = (arg for arg in get_args(annotation) if arg is not NoneType)
            return cls.of(inner, marks)
        return cls(annotation, marks)

    def mark(self, kind: type[Mark]) -> Mark | None:
        """Find the mark of this kind."""
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)

    @property
    def is_list(self) -> bool:
        return get_origin(self.core) is tuple

    @property
    def is_text(self) -> bool:
        """Tell whether a value is written in the environment as it is, not as JSON."""
        return self.core in {str, SecretStr, Path} or get_origin(self.core) is Literal

    @property
    def item(self) -> "Shape":
        """What a list holds."""
        return Shape.of(get_args(self.core)[0])

    @property
    def fields(self) -> dict[str, FieldInfo]:
        """The keys of a table."""
        return self.core.model_fields if self.is_table else {}

    @property
    def is_table(self) -> bool:
        return isinstance(self.core, type) and issubclass(self.core, BaseModel)

    @property
    def words(self) -> str:
        """Say what is accepted, so that it reads well after "expected"."""
        if self.is_list:
            return f"a list of {_plural(self.item)}"
        if get_origin(self.core) is Literal:
            *others, last = get_args(self.core)
            return f"{', '.join(others)} or {last}" if others else last
        if self.core in {int, float}:
            return ("an integer" if self.core is int else "a number") + self._range
        if self.mark(Url):
            return "a URL"
        words = {bool: "true or false", Path: "a path", SecretStr: "text, kept secret"}
        return "a table" if self.is_table else words.get(self.core, "text" + self._length)

    @property
    def _range(self) -> str:
        least, above, most = self.mark(Ge), self.mark(Gt), self.mark(Le)
        if least and most:
            return f" from {least.ge} to {most.le}"
        return f" above {above.gt}, {most.le} at most" if above and most else ""

    @property
    def _length(self) -> str:
        least, most = self.mark(MinLen), self.mark(MaxLen)
        return f" of {least.min_length} to {most.max_length} characters" if least and most else ""


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One key, and what there is to say about it."""

    section: str
    name: str
    shape: Shape
    default: str
    description: str

    def __str__(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"CORTEX_{self.section}__{self.name}".upper()


def setting_keys() -> Iterator[SettingKey]:
    """Walk through every key, section by section, as the models declare them."""
    for section, field in Settings.model_fields.items():
        yield from table_keys(section, Shape.of(field.annotation))


def table_keys(section: str, table: Shape) -> Iterator[SettingKey]:
    """Walk through the keys of one table."""
    for name, field in table.fields.items():
        shape = Shape.of(field.annotation, tuple(field.metadata))
        unset = shape.mark(Unset)
        default = "" if field.is_required() else shown(field.default)
        yield SettingKey(
            section, name, shape, unset.meaning if unset else default, field.description or ""
        )


def shape_at(location: tuple[int | str, ...]) -> Shape:
    """Find what is accepted at a place inside the settings."""
    shape = Shape.of(Settings)
    for part in location:
        if isinstance(part, int):
            shape = shape.item
        else:
            field = shape.fields[part]
            shape = Shape.of(field.annotation, tuple(field.metadata))
    return shape


def shown(value: object) -> str:
    """Write a value for people: text as it is, everything else as JSON."""
    if isinstance(value, SecretStr):
        return str(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plural(shape: Shape) -> str:
    return "tables" if shape.is_table else {Path: "paths"}.get(shape.core, "texts")


def _flat(marks: list[object]) -> Iterator[object]:
    for mark in marks:
        yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
