"""Make or refresh .venv from a lock file; called by ./cortex and ./check when it is stale.

Runs before anything of ours is installed, so it uses the standard library only. The stamp is
written last: a run that was killed half-way is simply repeated.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Generator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCKS = {"run": "requirements.lock", "dev": "requirements-dev.lock"}


@contextlib.contextmanager
def only_one() -> Generator[None]:
    """Hold a lock that the kernel gives back, so that two first runs do not meet in one folder."""
    with (ROOT / ".venv.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("cortex: waiting for another run to prepare .venv", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_fresh(kind: str) -> bool:
    """Tell whether the stamp of this kind is newer than everything it was made from."""
    stamp = VENV / f".ready-{kind}"
    if not stamp.exists() or not (VENV / "bin" / "python").exists():
        return False
    sources = [ROOT / LOCKS[kind], ROOT / "pyproject.toml"]
    return all(stamp.stat().st_mtime_ns > source.stat().st_mtime_ns for source in sources)


def works(python: Path, *, needs_pip: bool) -> bool:
    """Tell whether there is an environment that packages can be installed into."""
    test = ["-m", "pip", "--version"] if needs_pip else ["-c", ""]
    if not python.exists():
        return False
    return subprocess.run([str(python), *test], capture_output=True, check=False).returncode == 0


def install(kind: str) -> None:
    """Create the environment if need be and install the lock file and Cortex itself."""
    python = VENV / "bin" / "python"
    uv = shutil.which("uv")
    if not works(python, needs_pip=uv is None):
        # Also what an interrupted run left: it may have a Python and no pip.
        venv.EnvBuilder(symlinks=True, clear=True, with_pip=uv is None).create(VENV)
    if uv:
        pip = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
        pip += [] if sys.stderr.isatty() else ["--quiet"]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for arguments in (
        ["-r", str(ROOT / LOCKS[kind])],
        ["--no-deps", "--no-build-isolation", "-e", str(ROOT)],
    ):
        subprocess.run([*pip, *arguments], check=True, env=env, stdout=sys.stderr)


def main() -> int:
    """Bring .venv up to date; print one line on failure."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "run"
    with only_one():
        if is_fresh(kind):
            return 0
        print("cortex: preparing .venv (about a minute, 1.2 GB)", file=sys.stderr)
        try:
            install(kind)
        except KeyboardInterrupt:
            print("\ncortex: interrupted; the next run begins again", file=sys.stderr)
            return 130
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"cortex: cannot install {LOCKS[kind]} into {VENV}: {error}", file=sys.stderr)
            return 1
        (VENV / f".ready-{kind}").touch()
        return 0


if __name__ == "__main__":
    sys.exit(main())
