"""What the last run knew: `generator-output.json`, read and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from cortex.toolsets.code.indexing.chunk_files import write_atomically
from cortex.toolsets.code.indexing.discovery import Stamp
from cortex.toolsets.code.models import FORMAT_VERSION, GENERATOR_OUTPUT

_LAST_NS = 253_402_300_799 * 1_000_000_000  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file as it was: hash, stamp, how many chunks of each type, and why it has none."""

    sha256: str
    stamp: Stamp
    counts: tuple[int, ...]
    skipped: str = ""


@dataclass(slots=True)
class Record:
    """All files of a run, and which chunk files it left."""

    fingerprint: str = ""
    files: dict[str, FileRecord] = field(default_factory=dict[str, FileRecord])
    generated: dict[str, str] = field(default_factory=dict[str, str])


def read_record(folder: Path) -> Record:
    """Return what was written, or an empty record if it was not written here, or is damaged."""
    try:
        document = orjson.loads((folder / GENERATOR_OUTPUT).read_bytes())
        ours = document["cortex"]
        checksums: Mapping[str, str] = document["file_checksums"]
        files = {
            path: _file_record(checksums[path], values) for path, values in ours["files"].items()
        }
        return Record(ours["fingerprint"], files, dict(ours["generated"]))
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError):
        return Record()


def _file_record(sha256: str, values: Sequence[Any]) -> FileRecord:
    *numbers, skipped = values
    are_numbers = len(numbers) == 7 and all(isinstance(number, int) for number in numbers)
    if not are_numbers or min(numbers[3:]) < 0:
        raise ValueError("seven numbers are expected")
    return FileRecord(sha256, Stamp(*numbers[:3]), tuple(numbers[3:]), str(skipped))


def write_record(folder: Path, record: Record, *, now: str, took_s: float) -> None:
    """Write it; the keys of project-cortex first, what only we need under one of our own."""
    files = record.files
    sums = [sum(file.counts[number] for file in files.values()) for number in range(4)]
    documents = sum(1 for file in files.values() if file.counts[3])
    document: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "generated_at": now,
        "file_checksums": {path: file.sha256 for path, file in files.items()},
        "file_mtimes": {path: _moment(file.stamp.mtime_ns) for path, file in files.items()},
        "stats": {
            "docs_processed": documents,
            "code_files_processed": len(files) - documents,
            "total_doc_chunks": sums[3],
            "total_code_chunks": sum(sums[:3]),
            "processing_time_seconds": round(took_s, 3),
        },
        "cortex": {
            "fingerprint": record.fingerprint,
            "generated": record.generated,
            "files": {
                path: [
                    file.stamp.mtime_ns,
                    file.stamp.ctime_ns,
                    file.stamp.size_bytes,
                    *file.counts,
                    file.skipped,
                ]
                for path, file in files.items()
            },
        },
    }
    write_atomically(folder, GENERATOR_OUTPUT, orjson.dumps(document), is_last=True)


def moment() -> str:
    """Return the present as the files have it; no two writes have the same."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _moment(time_ns: int) -> str:
    # A file may claim any time, a date may not.
    seconds, rest_ns = divmod(min(max(time_ns, 0), _LAST_NS), 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{rest_ns:09d}Z"
