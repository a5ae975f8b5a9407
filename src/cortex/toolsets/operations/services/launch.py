"""Starting a service so that it never runs unrecorded, whenever the daemon is killed.

The process waits behind a gate: it becomes the service only when it reads a word from us, and ends
when we are gone before. Between the two its number and start time are written down; neither changes
when it becomes the service.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.errors import Unavailable
from cortex.toolsets.operations.services.processes import Identity, identify

# The command is handed over as arguments: the shell waits, and reads nothing of it.
_GATE = ("/bin/sh", "-c", 'read -r word && exec "$@" </dev/null', "cortex-service")


@dataclass(slots=True)
class Launched:
    """A process behind the gate, or past it."""

    token: str
    identity: Identity
    child: subprocess.Popen[bytes]
    _gate: int | None

    def let_go(self) -> None:
        """Open the gate: from here on it is the service."""
        if self._gate is not None:
            # Broken pipe: it was killed while it waited, which the watch is about to see.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._gate, b"go\n")
        self.close()

    def disown(self) -> None:
        """Leave the process to itself; whoever finds it later is not its parent."""
        self.child.returncode = 0  # else Popen complains that nobody waited for it

    def close(self) -> None:
        """Give up the gate; a process that was not let through ends."""
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None


def launch(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], token: str, log: Path
) -> Launched:
    """Start the command behind its gate, as the leader of a group; `env` has the token too."""
    program = _program(command[0], cwd, env)
    theirs, gate = os.pipe()
    ours: int | None = gate
    try:
        with _appended(log) as output:
            child = subprocess.Popen(
                [*_GATE, program, *command[1:]],
                cwd=cwd,
                env=env,
                stdin=theirs,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        identity = identify(child.pid)
        if identity is None:
            child.wait()
            raise Unavailable(f"cannot start {command[0]}: it was killed at once")
        launched = Launched(token, identity, child, ours)
        ours = None
    except OSError as error:
        raise Unavailable(f"cannot start {command[0]}: {error}") from error
    finally:
        os.close(theirs)
        if ours is not None:
            os.close(ours)
    return launched


def _program(name: str, cwd: Path, env: Mapping[str, str]) -> str:
    """Find the program now, so that what is missing is said in our words, not in its log."""
    if not cwd.is_dir():
        raise Unavailable(f"cannot start {name}: there is no folder {cwd}")
    path = str(cwd / name) if os.sep in name else name
    found = shutil.which(path, path=env.get("PATH", os.defpath))
    if found is None:
        raise Unavailable(f"cannot start {name}: there is no such program")
    return str(cwd / found)


@contextlib.contextmanager
def _appended(log: Path) -> Generator[int]:
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)
