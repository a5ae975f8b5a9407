"""The work on one file: read it, and cut it if it is not as it was. Runs in any process."""

import hashlib
from dataclasses import dataclass
from pathlib import PurePath

from cortex.toolsets.code.indexing.catalog import TEXT, language_of
from cortex.toolsets.code.indexing.discovery import NO_STAMP, Stamp
from cortex.toolsets.code.indexing.limits import ChunkLimits
from cortex.toolsets.code.indexing.reading import HEAD_BYTES, TooLarge, read_file, reason_to_skip
from cortex.toolsets.code.models import Chunk


@dataclass(frozen=True, slots=True)
class Job:
    """A file to look at, and the hash it had the last time."""

    path: str
    known_sha256: str
    max_bytes: int
    is_text: bool
    """Wanted by a pattern of the project, whatever its name says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a file."""

    path: str
    stamp: Stamp = NO_STAMP
    sha256: str = ""
    chunks: tuple[Chunk, ...] = ()
    is_same: bool = False
    is_gone: bool = False
    is_broken: bool = False
    skipped: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """How to do it for one project."""

    root: str
    limits: ChunkLimits

    def do(self, job: Job) -> Outcome:
        """Look at one file. Never raises for what is wrong with a file."""
        try:
            content, stamp = read_file(str(PurePath(self.root, job.path)), job.max_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return Outcome(path=job.path, is_gone=True)
        except TooLarge:
            return Outcome(path=job.path, skipped="huge")
        except OSError as error:
            return Outcome(path=job.path, problem=error.strerror or str(error))
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 == job.known_sha256:
            return Outcome(path=job.path, stamp=stamp, sha256=sha256, is_same=True)
        language = language_of(job.path, content[:HEAD_BYTES]) or (TEXT if job.is_text else None)
        skipped = reason_to_skip(language, content)
        if skipped or language is None:
            return Outcome(path=job.path, stamp=stamp, sha256=sha256, skipped=skipped)
        from cortex.toolsets.code.indexing.chunker import chunk_file  # noqa: PLC0415  # parsers

        chunked = chunk_file(language, job.path, content, self.limits)
        return Outcome(
            path=job.path,
            stamp=stamp,
            sha256=sha256,
            chunks=chunked.chunks,
            is_broken=chunked.is_broken,
            problem="cannot be parsed" if chunked.is_broken else "",
        )
