"""How much of what is there has been read: for a progress bar, and for every search."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cortex.clock import Clock
from cortex.toolsets.conversations.ingest.batch import FileDone
from cortex.toolsets.conversations.ingest.writer import Written

Key = tuple[str, str]  # source, file
Look = tuple[int, ...]


@dataclass(slots=True)
class Progress:
    """How far one reading is; `files` and `bytes` are what it found to read."""

    files: int = 0
    files_done: int = 0
    files_parsed: int = 0  # the others had nothing new
    bytes: int = 0
    bytes_done: int = 0
    events: int = 0
    errors: int = 0


Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the sources is in the store."""

    files_known: int = 0
    files_done: int = 0
    bytes_known: int = 0
    bytes_done: int = 0
    is_reading: bool = False
    lag_s: float = 0.0  # age of the oldest change that is not in the store yet
    last_error: str = ""
    errors: int = 0
    redactions: Mapping[str, int] = field(default_factory=dict[str, int])


class CoverageBook:
    """Keeps what coverage is made of; asked by every search, so it counts only after a change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[Key, Look] = {}
        self._settled: dict[Key, Look] = {}
        self._offsets: dict[Key, int] = {}
        self._redactions: dict[str, int] = {}
        self._errors = 0
        self._counted: tuple[int, int, int, int, float] | None = None
        self.last_error = ""
        self.is_reading = False

    def open(self, offsets: Mapping[Key, int], errors: int, redactions: Mapping[str, int]) -> None:
        """Take over what the store knows; what was seen settled is looked at again."""
        self._offsets = dict(offsets)
        self._errors = errors
        self._redactions = dict(redactions)
        self._settled.clear()
        self._counted = None

    def see(self, found: Iterable[tuple[Key, Look]], sources: Iterable[str]) -> None:
        """Note the files of some sources as they are now; those that are gone are left out."""
        names = set(sources)
        kept = {key: look for key, look in self._seen.items() if key[0] not in names}
        self._seen = kept | {key: look for key, look in found if look}
        self._counted = None

    def see_one(self, key: Key, look: Look) -> None:
        """Note one file that changed."""
        if look:
            self._seen[key] = look
            self._counted = None

    def is_settled(self, key: Key, look: Look) -> bool:
        """Tell whether a file was read to its end as it looks now."""
        return self._settled.get(key) == look

    def settle(self, done: FileDone) -> None:
        """Note that a file was read to its end."""
        self._settled[done.key] = done.look
        self._counted = None

    def reach(self, key: Key, offset: int) -> None:
        """Note how far a file is."""
        self._offsets[key] = offset
        self._counted = None

    def wrote(self, written: Written) -> None:
        """Note what a batch brought."""
        self._errors += len(written.faults)
        for rule, count in written.redactions.items():
            self._redactions[rule] = self._redactions.get(rule, 0) + count
        for fault in written.faults[-1:]:
            place = f"{fault.place.source_file}:{fault.place.line_no}"
            self.last_error = f"{place}: {fault.kind}: {fault.text}"

    def coverage(self) -> Coverage:
        """Return where we are."""
        if self._counted is None:
            self._counted = self._count()
        files, files_done, size, done, oldest_s = self._counted
        lag_s = max(0.0, self._clock.now().timestamp() - oldest_s) if oldest_s else 0.0
        return Coverage(
            files_known=files,
            files_done=files_done,
            bytes_known=size,
            bytes_done=done,
            is_reading=self.is_reading or files_done < files,
            lag_s=round(lag_s, 3),
            last_error=self.last_error,
            errors=self._errors,
            redactions=dict(self._redactions),
        )

    def _count(self) -> tuple[int, int, int, int, float]:
        files_done = size = done = 0
        oldest_s = 0.0
        for key, look in self._seen.items():
            size += look[1]
            if self._settled.get(key) == look:
                files_done += 1
                done += look[1]
            else:
                done += min(self._offsets.get(key, 0), look[1])
                changed_s = look[2] / 1e9
                oldest_s = min(oldest_s or changed_s, changed_s)
        return len(self._seen), files_done, size, done, oldest_s
