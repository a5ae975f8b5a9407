"""Reach the daemon of a home, and start it if none runs. Never blocks: its owner calls `step`.

Loaded in each agent session: see the note in `home.py`. Many may try at once; a lock that the
kernel gives back lets one of them start the daemon, and the others wait for its socket.
"""

from __future__ import annotations

import _socket
import errno
import os
import sys
import time

from cortex.home import MAX_SOCKET_PATH_BYTES, SESSION_VARIABLES, Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import Popen
    from typing import Any

STATUS_VARIABLE = "CORTEX_STATUS_FD"
START_TIMEOUT_S = 60.0
_MAX_SILENT_ENDS = 3
_STEP_S = 0.01
_MAX_STEP_S = 0.25


class LaunchFailed(Exception):
    """No daemon can be had; the message is one line for a person."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # what a command that needs the daemon exits with


def connect(home: Home) -> tuple[_socket.socket, str] | None:
    """Connect to the daemon and return socket and secret, or None if none listens."""
    if hasattr(_socket, "AF_UNIX") and not os.path.exists(home.port_file):
        if len(os.fsencode(home.socket)) > MAX_SOCKET_PATH_BYTES:
            raise LaunchFailed(
                f"the socket path {home.socket} is too long for this system"
                f" ({MAX_SOCKET_PATH_BYTES} bytes): set CORTEX_HOME to a shorter folder"
            )
        return _connect(_socket.AF_UNIX, home.socket, "")
    return _connect_port(home)


def _connect_port(home: Home) -> tuple[_socket.socket, str] | None:
    """Connect where there are no unix sockets: a loopback port, and a secret only we can read."""
    try:
        with open(home.port_file, encoding="ascii") as file:
            text, secret = file.read().split()
            port = int(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LaunchFailed(
            f"cannot read port and secret from {home.port_file}; remove it and try again"
        ) from error
    return _connect(_socket.AF_INET, ("127.0.0.1", port), secret)


def _connect(family: int, address: Any, secret: str) -> tuple[_socket.socket, str] | None:
    channel = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        channel.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        channel.close()
        return None
    except OSError as error:
        channel.close()
        raise LaunchFailed(
            f"cannot reach the daemon at {address}: {error.strerror}; {_advice(error)}"
        ) from error
    return channel, secret


def daemon_command(config: str | None) -> list[str]:
    """Return the command that runs the daemon in the foreground."""
    main = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    command = [sys.executable, main, "run", "daemon"]
    return [*command, "--config", config] if config else command


class Launcher:
    """One attempt to get a connection, in steps."""

    def __init__(self, home: Home, command: Sequence[str], *, keep_environ: bool = False) -> None:
        self._home = home
        self._command = list(command)
        self._keep_environ = keep_environ
        self._began = time.time()
        self._deadline = time.monotonic() + START_TIMEOUT_S
        self._lock: int | None = None
        self._child: Popen[bytes] | None = None
        self._status: int | None = None
        self._said = b""
        self._holder = ""
        self._silent_ends = 0

    def step(self) -> tuple[_socket.socket, str] | None:
        """Do what can be done now; return the connection when there is one."""
        channel = connect(self._home)
        if channel is not None:
            self.close()
            return channel
        if time.monotonic() > self._deadline:
            self.close()
            who = f"the daemon (pid {self._holder})" if self._holder else "the daemon"
            raise LaunchFailed(f"{who} did not answer within {START_TIMEOUT_S:.0f} s")
        if self._child is None:
            self._start()
        else:
            self._watch()
        return None

    @property
    def pause_s(self) -> float:
        """How long to wait before the next step.

        Who only waits for another's daemon asks ever less often: 200 of them would otherwise leave
        it no processor to start on.
        """
        if self._child is not None:
            return _STEP_S
        waited_s = START_TIMEOUT_S - (self._deadline - time.monotonic())
        return min(max(waited_s / 8, _STEP_S), _MAX_STEP_S)

    def close(self) -> None:
        """Give back what was taken; the daemon, if it was started, lives on."""
        for handle in (self._status, self._lock):
            if handle is not None:
                os.close(handle)
        if self._child is not None and self._child.poll() is None:
            self._child.returncode = 0  # it detaches itself and outlives us
        self._status = self._lock = self._child = None

    def _start(self) -> None:
        import fcntl  # noqa: PLC0415  # only where a daemon must be started
        import subprocess  # noqa: PLC0415

        prepare(self._home)
        if self._lock is None:
            self._raise_if_others_failed()
            try:
                lock = os.open(self._home.start_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise _unusable(self._home, error) from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return
            self._lock = lock
        dropped = () if self._keep_environ else SESSION_VARIABLES
        environ = {key: value for key, value in os.environ.items() if key not in dropped}
        environ["CORTEX_HOME"] = self._home.root
        if environ.get("CORTEX_CONFIG"):
            # The daemon starts in another folder than the one this name was written for.
            environ["CORTEX_CONFIG"] = os.path.abspath(os.path.expanduser(environ["CORTEX_CONFIG"]))
        self._status, theirs = os.pipe()
        environ[STATUS_VARIABLE] = str(theirs)
        try:
            with open(self._home.crash_file, "wb", opener=_private) as stderr:
                self._child = subprocess.Popen(
                    self._command,
                    env=environ,
                    cwd=self._home.root,
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    pass_fds=(theirs,),
                    start_new_session=True,
                )
        except OSError as error:
            self.close()
            raise LaunchFailed(f"cannot start the daemon: {error.strerror}") from error
        finally:
            os.close(theirs)
        os.set_blocking(self._status, False)
        self._said = b""

    def _raise_if_others_failed(self) -> None:
        """Do not try again what another just tried for us and could not do."""
        try:
            if os.stat(self._home.start_error).st_mtime > self._began:
                with open(self._home.start_error, encoding="utf-8") as file:
                    code, _, problem = file.read().strip().partition(" ")
                raise LaunchFailed(problem, int(code))
        except FileNotFoundError:
            return

    def _watch(self) -> None:
        """Read what the starting daemon says: `ready`, `held PID` or `error EXIT_CODE TEXT`."""
        if self._status is None or self._child is None:
            return
        try:
            chunk = os.read(self._status, 4096)
        except BlockingIOError:
            return
        self._said += chunk
        if chunk:
            return
        word, _, text = self._said.decode("utf-8", "replace").strip().partition(" ")
        if word == "held":
            self._holder = text
        elif word != "ready":
            code, _, problem = text.partition(" ")
            if word != "error":
                self._silent_ends += 1
                if self._silent_ends < _MAX_SILENT_ENDS:
                    self._begin_again()
                    return
                code = "1"
                problem = f"the daemon ended before it was ready; see {self._home.crash_file}"
            # Told before the lock is given back: who takes it next must not try the same again.
            self._tell_others(f"{code} {problem}")
            self.close()
            raise LaunchFailed(problem, int(code))
        self.close()

    def _begin_again(self) -> None:
        """Let go of a daemon that ended without a word, as when it was killed, but not the lock."""
        lock, self._lock = self._lock, None
        self.close()
        self._lock = lock

    def _tell_others(self, text: str) -> None:
        draft = self._home.start_error + ".new"
        try:
            with open(draft, "w", encoding="utf-8", opener=_private) as file:
                file.write(text)
            os.replace(draft, self._home.start_error)
        except OSError:
            return  # a full disk: each finds out by itself


def prepare(home: Home) -> None:
    """Make the folders of a home, 0700, or say why it cannot be used."""
    try:
        for folder in (home.root, home.run, home.logs):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            facts = os.stat(folder)
            if hasattr(os, "getuid") and facts.st_uid != os.getuid():
                raise LaunchFailed(
                    f"{folder} belongs to another user (uid {facts.st_uid});"
                    " set CORTEX_HOME to a folder of yours"
                )
            # Such as /tmp: not ours to close to everybody else.
            if facts.st_mode & 0o022:
                raise LaunchFailed(
                    f"others may write to {folder}; set CORTEX_HOME to a folder of your own"
                )
            # Asked before the mode is set: who took the right to write away meant it.
            if not os.access(folder, os.W_OK | os.X_OK):
                raise LaunchFailed(
                    f"{folder} is not writable; chmod u+rwx it, or set CORTEX_HOME to another"
                )
            os.chmod(folder, 0o700)
    except (FileExistsError, NotADirectoryError):
        raise LaunchFailed(
            f"the home {home.root} is not a folder; set CORTEX_HOME to one"
        ) from None
    except OSError as error:
        raise _unusable(home, error) from error


def _unusable(home: Home, error: OSError) -> LaunchFailed:
    return LaunchFailed(f"cannot use the home {home.root}: {error.strerror}; {_advice(error)}")


def _advice(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room on its disk"
    return "set CORTEX_HOME to a folder you can write to"


def wait(home: Home, command: Sequence[str], *, keep_environ: bool = False) -> tuple[Any, str]:
    """Return a connection, starting the daemon if need be: for callers that may block."""
    launcher = Launcher(home, command, keep_environ=keep_environ)
    try:
        while (channel := launcher.step()) is None:
            time.sleep(launcher.pause_s)
    except BaseException:
        launcher.close()
        raise
    return channel


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
