"""From the lines of a file to the records of a batch: parse, redact, read; in a worker thread."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

import orjson

from cortex.toolsets.conversations.ingest.batch import Batch
from cortex.toolsets.conversations.ingest.clean import Cleaner, parsed
from cortex.toolsets.conversations.ingest.files import tail_of
from cortex.toolsets.conversations.ingest.globs import matches
from cortex.toolsets.conversations.ingest.lines import Line, next_line, read_lines
from cortex.toolsets.conversations.ingest.prepare import prepared
from cortex.toolsets.conversations.ingest.values import (
    Checkpoint,
    Fault,
    Place,
    Record,
    digest,
)
from cortex.toolsets.conversations.models import Carry
from cortex.toolsets.conversations.sources.catalog import Source
from cortex.toolsets.conversations.sources.reader import LineReader, SourceFile, fingerprint

_MAX_FRAGMENT = 2_000
_LINES_BEFORE_CWD = 64
# A reader never raises; should one do so all the same, its record is a fault and not the end.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class LineFiller:
    """Reads lines into batches; a full batch is left to the caller, who goes on with another."""

    def __init__(self, cleaner: Cleaner, excluded: Sequence[str], limits: tuple[int, int]) -> None:
        self._cleaner = cleaner
        self._excluded = excluded
        self._max_events, self._max_bytes = limits

    def is_full(self, batch: Batch) -> bool:
        """Tell whether a batch should be written before more is read."""
        return batch.events >= self._max_events or batch.size_bytes >= self._max_bytes

    def is_excluded(self, cwd: str) -> bool:
        """Tell whether sessions of a folder are not to be read."""
        return bool(self._excluded and cwd) and matches(cwd.rstrip("/"), self._excluded)

    def fill(
        self,
        batch: Batch,
        source: Source,
        reader: LineReader,
        start: Checkpoint,
        *,
        takes_rest: bool = False,
    ) -> Checkpoint | None:
        """Read on from a checkpoint; returns where to go on, or None at the end of the file.

        With `takes_rest` a last line without newline is read as well.
        """
        if self._excluded and self.is_excluded(_first_cwd(reader, start.source_file)):
            return None
        carry = Carry(**orjson.loads(start.carry)) if start.carry else Carry()
        file = SourceFile(start.source_file)
        line_no = start.line_no
        with open(start.source_file, "rb") as stream:
            offset = next_line(stream, start.offset)
            lines = read_lines(stream, offset=offset, line_no=line_no, takes_rest=takes_rest)
            for line in lines:
                place = Place(
                    source.name,
                    source.harness,
                    reader.provider,
                    start.source_file,
                    start.origin,
                    start.generation,
                    line.number,
                    line.offset,
                )
                self._take(batch, line, place, reader, file=file, carry=carry, head=start.head)
                offset, line_no = line.end, line.number
                if self.is_full(batch):
                    break
            tail = tail_of(stream.fileno(), offset)
        batch.bytes_read += offset - start.offset
        told = orjson.dumps(asdict(carry)).decode()
        point = replace(start, offset=offset, line_no=line_no, tail=tail, carry=told)
        if offset != start.offset or not start.line_no:
            batch.checkpoints[source.name, start.source_file] = point
        return point if self.is_full(batch) else None

    def _take(
        self,
        batch: Batch,
        line: Line,
        place: Place,
        reader: LineReader,
        *,
        file: SourceFile,
        carry: Carry,
        head: str,
    ) -> None:
        if line.raw is None:
            text = f"a line of {line.size_bytes} bytes; at most 8 MiB are read"
            batch.faults.append(_fault(place, "line_too_large", text, head))
            return
        if not line.raw.strip():
            return
        try:
            record = self._read(line.raw, place, reader, file, carry)
        except UNREADABLE as error:
            fragment = line.raw[:_MAX_FRAGMENT].decode("utf-8", "replace")
            kind = "json_parse_error" if _loose(line.raw) is None else "normalize_error"
            batch.faults.append(
                _fault(place, kind, str(error)[:200], head, self._cleaner.text(fragment))
            )
            return
        reading = record.reading
        if self.is_excluded(reading.cwd):
            return
        if reading.bad_timestamp:
            said = reading.bad_timestamp
            batch.faults.append(
                _fault(place, "timestamp_parse_error", said, head, reading.record_type)
            )
        batch.add(prepared(record))

    def _read(
        self, raw: bytes, place: Place, reader: LineReader, file: SourceFile, carry: Carry
    ) -> Record:
        value = parsed(raw)
        if not isinstance(value, dict):
            raise ValueError("the record is not an object")  # noqa: TRY004  # one kind of fault
        text, clean, counts = self._cleaner.json(raw.decode("utf-8", "replace"), value)
        record = cast("dict[str, Any]", clean)
        # Named by the bytes of the file, so that new rules for secrets make no new records.
        reading = reader.read(record, raw, place.line_no, file, carry)
        if counts:
            events = tuple(replace(e, text=self._cleaner.text(e.text)) for e in reading.events)
            reading = replace(reading, events=events)
        return Record(place, reading, text, redactions=counts)


def _fault(place: Place, kind: str, text: str, head: str, fragment: str = "") -> Fault:
    """Make a fault that is the same in a copy of the file, told by how the file begins."""
    where = place.source_file if place.line_no == 1 or not head else head
    named = digest(place.harness, where, place.offset, kind, fingerprint(fragment.encode()))
    return Fault(place, named, kind, text, fragment)


def _loose(raw: bytes) -> object:
    try:
        value = parsed(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _first_cwd(reader: LineReader, path: str) -> str:
    """Return the folder in which the session of a file began, if its first lines say it."""
    for reading in _first_readings(reader, path):
        if reading.cwd:
            return reading.cwd
    return ""


def _first_readings(reader: LineReader, path: str) -> Iterator[Any]:
    carry, file = Carry(), SourceFile(path)
    with open(path, "rb") as stream:
        for line in read_lines(stream, offset=0, line_no=0):
            record = _loose(line.raw) if line.raw else None
            if isinstance(record, dict) and line.raw is not None:
                yield reader.read(
                    cast("dict[str, Any]", record), line.raw, line.number, file, carry
                )
            if line.number >= _LINES_BEFORE_CWD:
                return
