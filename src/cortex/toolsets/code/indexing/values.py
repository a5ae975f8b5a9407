"""Values of a settings file, asked for by key and type; what is wrong is said with its key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

T = TypeVar("T", bound=str)


@dataclass(frozen=True, slots=True)
class Values:
    """One section. Every method raises `ValueError` for a value that cannot be used."""

    name: str
    known: Mapping[Any, Any]

    @classmethod
    def of(cls, document: object) -> Self:
        """Return the outermost section."""
        if not isinstance(document, dict):
            raise ValueError("sections such as `paths:` are expected")  # noqa: TRY004
        return cls("", document)

    def section(self, key: str) -> "Values":
        """Return a section, empty if it is not there."""
        value = self.known.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, "a section with keys is expected")
        return Values(f"{self.name}{key}.", value or {})

    def has(self, key: str) -> bool:
        """Tell whether a key is set."""
        return self.known.get(key) is not None

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """Return a whole number within its range."""
        if not self.has(key):
            return default
        value = self.known[key]
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(key, f"a whole number from {low} to {high} is expected")
        return value

    def text(self, key: str) -> str | None:
        """Return a text, if there is one."""
        value = self.known.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text is expected")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts, if there is one."""
        value = self.known.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of texts is expected")
        return tuple(value)

    def chosen(self, key: str, allowed: tuple[T, ...]) -> tuple[T, ...]:
        """Return those of the allowed words that are listed, or all if there is no list."""
        wanted = self.texts(key)
        if wanted is None:
            return allowed
        if strange := [word for word in wanted if word not in allowed]:
            raise self._wrong(key, f"{strange[0]} is not one of {', '.join(allowed)}")
        return tuple(word for word in allowed if word in wanted)

    def _wrong(self, key: str, why: str) -> ValueError:
        return ValueError(f"{self.name}{key}: {why}")
