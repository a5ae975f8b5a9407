"""A process that holds the model: the daemon stays small, and its own work is never held up.

It is asked through its standard input and answers on its standard output, so that it ends with
whoever started it, however that ended. What they exchange, they made themselves.
"""

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from cortex.embedding.provider import Mode, Vectors
from cortex.embedding.weights import ModelFiles

_LENGTH = struct.Struct(">Q")


class WorkerEnded(Exception):
    """The process is gone, or did not answer in time; the reason is what it said last."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker needs to begin."""

    files: ModelFiles
    max_tokens: int
    batch_size: int
    threads: int
    nice: int


class Worker:
    """One such process. Blocks while it works, so it is used by one thread at a time."""

    def __init__(self, setup: Setup) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            # Not ended by a Ctrl+C that is meant for us.
            start_new_session=True,
        )
        self._send(setup)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def embed(self, texts: Sequence[str], mode: Mode, *, timeout_s: float) -> Vectors:
        """Return the vectors of the texts; raises `WorkerEnded`, and then it is to be closed."""
        deadline = threading.Timer(timeout_s, self._process.kill)
        deadline.daemon = True
        deadline.start()
        try:
            self._send((list(texts), mode))
            answer = _received(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise WorkerEnded(self._last_words()) from error
        finally:
            deadline.cancel()
        return answer

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process.kill()
        self._process.wait()
        self._said.close()

    def _last_words(self) -> str:
        if self._process.wait() == -signal.SIGKILL:
            return "it took too long, or was killed"
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it ended")

    def _send(self, value: object) -> None:
        try:
            _send(self._process.stdin, value)
        except OSError as error:
            raise WorkerEnded(self._last_words()) from error


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Load the model, then answer until there is nobody to ask; an error ends the process."""
    # Imported here: whoever starts a worker needs neither of the libraries behind it.
    from cortex.embedding.onnx_model import OnnxModel  # noqa: PLC0415

    with contextlib.suppress(EOFError, BrokenPipeError):
        setup: Setup = _received(asked)
        os.nice(setup.nice)
        model = OnnxModel(
            setup.files,
            max_tokens=setup.max_tokens,
            batch_size=setup.batch_size,
            threads=setup.threads,
        )
        while True:
            texts, mode = _received(asked)
            _send(answers, model.embed(texts, mode))


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
    serve(sys.stdin.buffer, sys.stdout.buffer)
