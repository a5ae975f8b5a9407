"""Session files as things that grow, move and are replaced: where reading goes on."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cortex.toolsets.conversations.ingest.values import Checkpoint
from cortex.toolsets.conversations.sources.reader import fingerprint

_HEAD_BYTES = 4096
_TAIL_BYTES = 256
# What belongs to a database, beside the file that is named.
_BESIDE = ("-wal",)
_DATABASES = (".db", ".vscdb")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What tells one file from another, whatever it is called."""

    inode: int
    size_bytes: int
    head: str  # names its first line; empty while that line is not complete
    tail: str  # names what stands before the place that was reached


def look_of(path: str) -> tuple[int, ...]:
    """Return numbers that change whenever the file does; none if it is not there."""
    paths = [path, *(path + ending for ending in _BESIDE)] if is_database(path) else [path]
    look: list[int] = []
    for each in paths:
        try:
            facts = os.stat(each)
        except OSError:
            if each == path:
                return ()
            continue
        look += (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return tuple(look)


def is_database(path: str) -> bool:
    """Tell whether changes of a file may stand in another one beside it."""
    return path.endswith(_DATABASES)


def owner_of(path: str) -> str:
    """Return the database to which a file beside it belongs; any other file is its own."""
    for ending in ("-wal", "-shm", "-journal"):
        if path.endswith(ending) and is_database(path.removesuffix(ending)):
            return path.removesuffix(ending)
    return path


def look_at(path: str, offset: int) -> FileFacts:
    """Return what a file is now, and what stands before `offset`."""
    with open(path, "rb") as file:
        facts = os.fstat(file.fileno())
        start = file.read(_HEAD_BYTES)
        tail = _tail(file.fileno(), offset)
    line, newline, _ = start.partition(b"\n")
    is_known = bool(newline) or len(start) == _HEAD_BYTES
    head = fingerprint(line) if is_known else ""
    return FileFacts(facts.st_ino, facts.st_size, head, tail)


def tail_of(file: int, offset: int) -> str:
    """Name the bytes before a place in an open file."""
    return _tail(file, offset)


def _tail(file: int, offset: int) -> str:
    start = max(0, offset - _TAIL_BYTES)
    return fingerprint(os.pread(file, offset - start, start)) if offset else ""


def resume(known: Checkpoint, facts: FileFacts) -> Checkpoint:
    """Return where to go on: where we were, or at the beginning of what took the file's place."""
    is_cut = facts.size_bytes < known.offset
    is_other = bool(known.head and facts.head) and known.head != facts.head
    if is_cut or is_other or facts.tail != known.tail:
        return Checkpoint(
            known.source_name,
            known.source_file,
            known.origin,
            inode=facts.inode,
            generation=known.generation + 1,
            head=facts.head,
        )
    return replace(known, inode=facts.inode, head=known.head or facts.head)


def moved_from(facts: FileFacts, known: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the checkpoint of the file that has this new name, if its old one is gone."""
    for point in known:
        is_same = point.inode == facts.inode and point.head == facts.head and bool(facts.head)
        if is_same and point.offset <= facts.size_bytes and not os.path.exists(point.source_file):
            return point
    return None
