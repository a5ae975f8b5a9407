"""Processes that read lines beside this one: Python uses one core for each process.

A worker is asked through its standard input and answers on its standard output, so that it ends
with whoever started it, however that ended. What they exchange, they made themselves.
"""

import contextlib
import gc
import os
import pickle
import struct
import subprocess
import sys
from typing import IO, Any

from cortex.toolsets.conversations.ingest.batch import Batch
from cortex.toolsets.conversations.ingest.fill import LineFiller
from cortex.toolsets.conversations.ingest.values import Checkpoint
from cortex.toolsets.conversations.sources.catalog import Source
from cortex.toolsets.conversations.sources.reader import LineReader

_LENGTH = struct.Struct(">Q")

Filled = tuple[Batch, Checkpoint | None]


class WorkerEnded(Exception):
    """The process is gone; what it was asked is to be done some other way."""


class Worker:
    """One such process. Blocks while it works, so each is used by one thread at a time."""

    def __init__(self, filler: LineFiller) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Not ended by a Ctrl+C that is meant for us.
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerEnded from error
        self._ask(filler)

    def fill(self, source: Source, start: Checkpoint, *, takes_rest: bool) -> Filled:
        """Read on from a checkpoint into a new batch.

        Raises:
            OSError: the file cannot be read.
            WorkerEnded: the process is gone.
        """
        self._ask((source, start, takes_rest))
        try:
            answer = _received(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise WorkerEnded from error
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()

    def _ask(self, question: object) -> None:
        try:
            _send(self._process.stdin, question)
        except OSError as error:
            raise WorkerEnded from error


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until there is nobody to ask."""
    with contextlib.suppress(EOFError, BrokenPipeError):
        filler: LineFiller = _received(asked)
        while True:
            _send(answers, _filled(filler, *_received(asked)))


def _filled(
    filler: LineFiller, source: Source, start: Checkpoint, takes_rest: bool
) -> Filled | OSError:
    reader = source.reader(start.source_file)
    batch = Batch()
    try:
        if isinstance(reader, LineReader):
            return batch, filler.fill(batch, source, reader, start, takes_rest=takes_rest)
    except OSError as error:
        return error
    return batch, None


def _send(pipe: IO[bytes] | None, value: object) -> None:
    if pipe is not None:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        pipe.write(_LENGTH.pack(len(data)))
        pipe.write(data)
        pipe.flush()


def _received(pipe: IO[bytes] | None) -> Any:
    length = pipe.read(_LENGTH.size) if pipe is not None else b""
    if pipe is None or len(length) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(length)[0])
    return pickle.loads(data)  # noqa: S301  # written by the process that we started, or our own


if __name__ == "__main__":
    os.nice(5)
    # Records have no cycles; looking for some took a tenth of the time.
    gc.disable()
    serve(sys.stdin.buffer, sys.stdout.buffer)
