"""From a document or a database to the records of batches: read again, the last reading holds."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import orjson

from cortex.clock import Clock
from cortex.toolsets.conversations.ingest.batch import Batch
from cortex.toolsets.conversations.ingest.clean import Cleaner, parsed
from cortex.toolsets.conversations.ingest.files import is_database, look_of
from cortex.toolsets.conversations.ingest.fill import UNREADABLE
from cortex.toolsets.conversations.ingest.lines import read_lines
from cortex.toolsets.conversations.ingest.prepare import prepared
from cortex.toolsets.conversations.ingest.values import (
    Checkpoint,
    Fault,
    Place,
    Record,
    digest,
)
from cortex.toolsets.conversations.models import Reading
from cortex.toolsets.conversations.sources.catalog import Source
from cortex.toolsets.conversations.sources.reader import DatabaseReader, DocumentReader, SourceFile
from cortex.toolsets.conversations.sources.sqlite_file import SourceUnreadable

# Positions may miss what a database did to itself, such as numbering its rows anew.
_WHOLE_AGAIN_S = 24 * 3600


class HalfWritten(Exception):
    """A document that cannot be read as it is: looked at again at the next round, then a fault."""


@dataclass(frozen=True, slots=True)
class _State:
    """What a checkpoint of a document remembers."""

    look: tuple[int, ...] = ()
    position: str = ""
    whole_at: int = 0  # when everything was read last


def is_unchanged(point: Checkpoint, look: tuple[int, ...]) -> bool:
    """Tell whether a document looks as it did when it was read last."""
    return bool(point.carry) and _state(point).look == look


class DocumentFiller:
    """Reads documents into batches. One that cannot be read twice over in one state is a fault."""

    def __init__(self, cleaner: Cleaner, is_excluded: Callable[[str], bool], clock: Clock) -> None:
        self._cleaner = cleaner
        self._is_excluded = is_excluded
        self._clock = clock
        self._failed: dict[str, tuple[int, ...]] = {}

    def fill(
        self, source: Source, reader: DocumentReader | DatabaseReader, start: Checkpoint
    ) -> Iterator[Callable[[Batch], None]]:
        """Return what adds each record to a batch; the checkpoint comes last."""
        path = start.source_file
        look = look_of(path)
        place = Place(
            source.name, source.harness, reader.provider, path, start.origin, start.generation, 0, 0
        )
        state = _State(look)
        try:
            for fault in _broken_lines(place, self._cleaner):
                yield lambda batch, fault=fault: batch.faults.append(fault)
            state, readings = self._opened(reader, path, look, _state(start))
            for number, reading in enumerate(readings, 1):
                yield from self._take(place._replace(line_no=number), reading)
        except (SourceUnreadable, *UNREADABLE) as error:
            if self._failed.get(path) != look:
                self._failed[path] = look
                raise HalfWritten(path) from error
            reason = error.reason if isinstance(error, SourceUnreadable) else str(error)
            fault = _fault(place, "source_unreadable", reason)
            yield lambda batch: batch.faults.append(fault)
        self._failed.pop(path, None)
        carry = orjson.dumps([list(state.look), state.position, state.whole_at]).decode()
        point = replace(start, inode=look[0], offset=look[1], carry=carry)

        def reach(batch: Batch) -> None:
            batch.checkpoints[source.name, path] = point
            batch.bytes_read += max(0, point.offset - start.offset)

        yield reach

    def _opened(
        self,
        reader: DocumentReader | DatabaseReader,
        path: str,
        look: tuple[int, ...],
        before: _State,
    ) -> tuple[_State, Iterator[Reading]]:
        file = SourceFile(path)
        if not isinstance(reader, DatabaseReader) or not is_database(path):
            _check_whole(path)
            return _State(look), reader.read_all(file)
        now_s = int(self._clock.now().timestamp())
        # Another file, or one that shrank, has nothing to do with the position in the old one.
        is_same = before.look[:1] == look[:1] and before.look[1:2] <= look[1:2]
        is_whole = not is_same or now_s - before.whole_at > _WHOLE_AGAIN_S
        position = reader.position(file)
        since = "" if is_whole else before.position
        whole_at = before.whole_at if since else now_s
        return _State(look, position, whole_at), reader.read_all(file, since)

    def _take(self, place: Place, reading: Reading) -> Iterator[Callable[[Batch], None]]:
        if self._is_excluded(reading.cwd):
            return
        clean, raw_json, counts = self._cleaner.reading(reading)
        if reading.bad_timestamp:
            said = f"{reading.key}: {reading.bad_timestamp}"
            fault = _fault(place, "timestamp_parse_error", said)
            yield lambda batch: batch.faults.append(fault)
        record = prepared(Record(place, clean, raw_json, _mark(reading), counts))
        yield lambda batch: batch.add(record)


def _state(point: Checkpoint) -> _State:
    if not point.carry:
        return _State()
    look, position, whole_at = orjson.loads(point.carry)
    return _State(tuple(look), position, whole_at)


def _mark(reading: Reading) -> int:
    """Name everything a reading says; never 0."""
    said = repr(reading).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest()) or 1


def _check_whole(path: str) -> None:
    """Raise ValueError for a document that is only half there."""
    with open(path, "rb") as file:
        if path.endswith(".jsonl"):
            whole = b"\n" in file.read(8 * 1024 * 1024)
        else:
            whole = not path.endswith(".json") or parsed(file.read()) is not None
    if not whole:
        raise ValueError("the document is not complete")


def _broken_lines(place: Place, cleaner: Cleaner) -> Iterator[Fault]:
    """Return the complete lines of a journal that are no JSON; its reader leaves them out."""
    if not place.source_file.endswith(".jsonl"):
        return
    with open(place.source_file, "rb") as file:
        for line in read_lines(file, offset=0, line_no=0):
            try:
                if line.raw is None or line.raw.strip():
                    parsed(line.raw or b"")
            except (ValueError, RecursionError) as error:
                fragment = cleaner.text((line.raw or b"")[:2000].decode("utf-8", "replace"))
                at = place._replace(line_no=line.number, offset=line.offset)
                yield _fault(at, "json_parse_error", str(error)[:200], fragment)


def _fault(place: Place, kind: str, text: str, fragment: str = "") -> Fault:
    named = digest(place.harness, place.source_file, place.offset, kind, text, fragment)
    return Fault(place, named, kind, text, fragment)
