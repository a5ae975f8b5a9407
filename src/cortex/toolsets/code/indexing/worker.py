"""Processes that cut files beside this one: Python uses one core for each process.

A worker is asked through its standard input and answers on its standard output, so that it ends
with whoever started it. One that hangs in a grammar, or is ended by it, costs that file alone.
"""

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

from cortex.toolsets.code.indexing.work import Job, Outcome, Work

_LENGTH = struct.Struct(">Q")
# A batch of the slowest files there are takes this long on a busy machine.
_PATIENCE_S = 120.0


class WorkerEnded(Exception):
    """The process is gone; what it was asked is to be done some other way."""


class Worker:
    """One such process. Blocks while it works, so each is used by one thread at a time."""

    def __init__(self, work: Work) -> None:
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
        self._ask(work)

    def do(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Look at some files; raises `WorkerEnded` if the process ends or takes too long."""
        watchdog = threading.Timer(_PATIENCE_S, self._process.kill)
        watchdog.start()
        try:
            self._ask(jobs)
            return _received(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise WorkerEnded from error
        finally:
            watchdog.cancel()

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
        work: Work = _received(asked)
        while True:
            jobs: Sequence[Job] = _received(asked)
            _send(answers, [work.do(job) for job in jobs])


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
    serve(sys.stdin.buffer, sys.stdout.buffer)
