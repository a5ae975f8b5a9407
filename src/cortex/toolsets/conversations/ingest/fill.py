"""From the bytes of a file to the records of a batch: parse, read, redact; in a worker thread."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, cast

import orjson

from cortex.toolsets.conversations.ingest.batch import Batch, Checkpoint, Fault, Place, Record
from cortex.toolsets.conversations.ingest.lines import Line, read_lines
from cortex.toolsets.conversations.models import Carry, Event
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.sources.catalog import Source
from cortex.toolsets.conversations.sources.reader import LineReader, SourceFile

_MAX_FRAGMENT = 2_000


class Filler:
    """Reads files into batches; counts what it redacted."""

    def __init__(self, redactor: Redactor, *, max_events: int, max_bytes: int) -> None:
        self._redactor = redactor
        self._max_events = max_events
        self._max_bytes = max_bytes
        self.redactions: Counter[str] = Counter()

    def is_full(self, batch: Batch) -> bool:
        """Tell whether a batch should be written before more is read."""
        return batch.events >= self._max_events or batch.size_bytes >= self._max_bytes

    def fill(self, batch: Batch, source: Source, reader: LineReader, start: Checkpoint) -> bool:
        """Read on from a checkpoint; returns whether the file's end was reached."""
        carry = Carry(**orjson.loads(start.carry)) if start.carry else Carry()
        file = SourceFile(start.source_file)
        offset, line_no, is_at_end = start.offset, start.line_no, True
        with open(start.source_file, "rb") as stream:
            for line in read_lines(stream, offset=offset, line_no=line_no):
                place = Place(
                    source.name,
                    source.harness,
                    reader.provider,
                    start.source_file,
                    start.generation,
                    line.number,
                    line.offset,
                )
                self._take(batch, line, place, reader, file=file, carry=carry)
                offset, line_no = line.end, line.number
                if self.is_full(batch):
                    is_at_end = False
                    break
        if offset != start.offset or not start.line_no:
            batch.checkpoints[source.name, start.source_file] = replace(
                start, offset=offset, line_no=line_no, carry=orjson.dumps(asdict(carry)).decode()
            )
        return is_at_end

    def _take(
        self,
        batch: Batch,
        line: Line,
        place: Place,
        reader: LineReader,
        *,
        file: SourceFile,
        carry: Carry,
    ) -> None:
        if line.raw is None:
            text = f"a line of {line.size_bytes} bytes; at most 8 MiB are read"
            batch.faults.append(Fault(place, "line_too_large", text, ""))
            return
        if not line.raw.strip():
            return
        try:
            record = _parsed(line.raw)
        except (ValueError, RecursionError) as error:
            fragment = line.raw[:_MAX_FRAGMENT].decode("utf-8", "replace")
            batch.faults.append(
                Fault(place, "json_parse_error", str(error)[:200], self._clean(fragment))
            )
            return
        reading = reader.read(record, line.raw, line.number, file, carry)
        if reading.bad_timestamp:
            batch.faults.append(
                Fault(place, "timestamp_parse_error", reading.bad_timestamp, reading.record_type)
            )
        written = line.raw.decode("utf-8", "replace")
        raw_json = self._clean_json(written)
        if raw_json is not written:
            # What the line does not hold, no part of it does: only then are the parts looked at.
            events = tuple(self._cleaned_event(event) for event in reading.events)
            reading = replace(reading, events=events)
        batch.add(Record(place, reading, raw_json))

    def _cleaned_event(self, event: Event) -> Event:
        return replace(
            event,
            text=self._clean(event.text),
            title=self._clean(event.title),
            payload_json=self._clean_json(event.payload_json),
        )

    def _clean(self, text: str) -> str:
        return self._counted(self._redactor.redact(text)) if text else text

    def _clean_json(self, text: str) -> str:
        return self._counted(self._redactor.redact_json(text)) if text else text

    def _counted(self, redacted: tuple[str, Mapping[str, int]]) -> str:
        text, counts = redacted
        if counts:
            self.redactions.update(counts)
        return text


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(raw)
    except orjson.JSONDecodeError:
        # Stricter than the agents' own writers: half of a surrogate pair is theirs to write.
        record = json.loads(raw)
    if not isinstance(record, dict):
        raise ValueError("the record is not an object")  # noqa: TRY004  # one kind of fault
    return cast("dict[str, Any]", record)
