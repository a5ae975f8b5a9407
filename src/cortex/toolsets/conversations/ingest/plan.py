"""What a batch is about to do, told to the store before it is done."""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Removal:
    """A record that another one takes the place of, and the numbers of its events."""

    session_id: str
    key: str
    doc_id: int
    events: int

    @property
    def doc_ids(self) -> range:
        """Return the numbers of its events."""
        return range(self.doc_id, self.doc_id + self.events)


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers that the events of a batch take, and the records that it replaces."""

    docs: tuple[range, ...] = ()
    removals: tuple[Removal, ...] = ()

    def to_json(self) -> str:
        """Write it as it is kept."""
        docs = [(run.start, len(run)) for run in self.docs]
        removals = [(r.session_id, r.key, r.doc_id, r.events) for r in self.removals]
        return orjson.dumps([docs, removals]).decode()

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read it again."""
        docs, removals = orjson.loads(text) if text else ([], [])
        return cls(
            tuple(range(start, start + count) for start, count in docs),
            tuple(Removal(*told) for told in removals),
        )


def runs(numbers: Iterable[int]) -> tuple[range, ...]:
    """Return the same numbers as few unbroken runs."""
    found: list[range] = []
    for number in sorted(numbers):
        if found and number == found[-1].stop:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return tuple(found)
