"""Session files as things that grow, move and are replaced: where reading goes on."""

import os
from dataclasses import dataclass, replace

from cortex.toolsets.conversations.ingest.batch import Checkpoint
from cortex.toolsets.conversations.sources.reader import fingerprint

_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What tells one file from another, whatever it is called."""

    inode: int
    size_bytes: int
    head: str  # names its first line; empty while that line is not complete


def look_at(path: str) -> FileFacts | None:
    """Return what a file is now, or None if it is not there."""
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            start = file.read(_HEAD_BYTES)
    except OSError:
        return None
    line, newline, _ = start.partition(b"\n")
    is_known = bool(newline) or len(start) == _HEAD_BYTES
    return FileFacts(facts.st_ino, facts.st_size, fingerprint(line) if is_known else "")


def resume(known: Checkpoint, facts: FileFacts) -> Checkpoint:
    """Return where to go on: where we were, or at the beginning of what took the file's place."""
    is_cut = facts.size_bytes < known.offset
    is_other = bool(known.head and facts.head) and known.head != facts.head
    if is_cut or is_other:
        return Checkpoint(
            known.source_name,
            known.source_file,
            inode=facts.inode,
            generation=known.generation + 1,
            head=facts.head,
        )
    return replace(known, inode=facts.inode, head=known.head or facts.head)


def moved_from(facts: FileFacts, known: list[Checkpoint]) -> Checkpoint | None:
    """Return the checkpoint of the file that has this new name, if its old one is gone."""
    for point in known:
        is_same = point.inode == facts.inode and point.head == facts.head and bool(facts.head)
        if is_same and point.offset <= facts.size_bytes and not os.path.exists(point.source_file):
            return point
    return None
