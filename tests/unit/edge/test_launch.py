import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.edge import launch
from cortex.edge.launch import Launcher, LaunchFailed, connect, daemon_command, prepare, wait
from cortex.home import SESSION_VARIABLES, Home
from harness import eventually

# A daemon of a few lines: notes that it was started, then does what it was told to.
STUB = """
import os, signal, socket, sys, time
home, word = sys.argv[1:3]
with open(os.path.join(home, "starts"), "a") as file:
    file.write(repr({"cwd": os.getcwd(), "environ": dict(os.environ)}) + "\\n")
with open(os.path.join(home, "starts")) as file:
    starts = len(file.readlines())
pipe = int(os.environ["CORTEX_STATUS_FD"])
if word == "killed" and starts == 1:
    os.kill(os.getpid(), signal.SIGKILL)
elif word in ("ready", "killed"):
    if os.fork() > 0:
        os._exit(0)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(home, "run", "cortexd.sock"))
    listener.listen()
    os.write(pipe, b"ready")
    os.close(pipe)
    listener.accept()
elif word == "crash":
    sys.exit("out of luck")
elif word == "draining":
    if starts > 5:
        sys.exit("out of luck")
    os.write(pipe, b"held 4711")
else:
    os.write(pipe, " ".join(sys.argv[2:]).encode())
"""


@pytest.fixture
def home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="cx-") as folder:
        yield Home(f"{folder}/home")


def stub(home: Home, *words: str) -> list[str]:
    return [sys.executable, "-S", "-c", STUB, home.root, *words]


def starts_of(home: Home) -> list[dict[str, dict[str, str]]]:
    lines = Path(home.root, "starts").read_text().splitlines()
    return [eval(line) for line in lines]


def step_to_failure(launcher: Launcher) -> LaunchFailed:
    caught: list[LaunchFailed] = []

    def has_failed() -> bool:
        try:
            assert launcher.step() is None
        except LaunchFailed as error:
            caught.append(error)
        return bool(caught)

    eventually(has_failed, "a failure")
    return caught[0]


# connect


def test_nothing_to_connect_to_is_no_error(home: Home) -> None:
    assert connect(home) is None
    Path(home.run).mkdir(parents=True)
    Path(home.socket).touch()  # left behind by a daemon that was killed
    assert connect(home) is None


def test_home_below_a_file_is_nothing_to_connect_to(home: Home) -> None:
    Path(home.root).parent.joinpath("home").write_text("")
    assert connect(home) is None


def test_socket_is_connected_to_without_a_secret(home: Home) -> None:
    prepare(home)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(home.socket)
        listener.listen()
        reached = connect(home)
        assert reached is not None
        assert reached[1] == ""
        reached[0].close()


def test_port_file_is_followed_and_its_secret_returned(home: Home) -> None:
    prepare(home)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Path(home.port_file).write_text(f"{listener.getsockname()[1]} s3cret\n")
        reached = connect(home)
        assert reached is not None
        assert reached[1] == "s3cret"
        reached[0].close()
    assert connect(home) is None  # its daemon is gone, the file is stale


@pytest.mark.parametrize("text", ["", "12", "x y", "1 2 3"])
def test_port_file_that_makes_no_sense_is_named(home: Home, text: str) -> None:
    prepare(home)
    Path(home.port_file).write_text(text)
    with pytest.raises(LaunchFailed, match=r"cortexd\.port; remove it and try again"):
        connect(home)


def test_socket_path_that_is_too_long_is_refused() -> None:
    with pytest.raises(LaunchFailed, match=r"too long .* set CORTEX_HOME to a shorter folder"):
        connect(Home("/tmp/" + "x" * 120))


# prepare


def test_folders_are_made_for_their_owner_only(home: Home) -> None:
    mask = os.umask(0)
    try:
        prepare(home)
    finally:
        os.umask(mask)
    for folder in (home.root, home.run, home.logs):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700


def test_folders_that_others_may_read_are_closed(home: Home) -> None:
    Path(home.root).mkdir(mode=0o755)
    prepare(home)
    assert stat.S_IMODE(Path(home.root).stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["root", "run", "logs"])
def test_home_with_a_file_for_a_folder_is_refused(home: Home, name: str) -> None:
    path = Path(getattr(home, name))
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    with pytest.raises(LaunchFailed, match="is not a folder; set CORTEX_HOME"):
        prepare(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
@pytest.mark.parametrize("name", ["root", "run", "logs"])
def test_home_with_a_folder_of_another_user_is_refused(home: Home, name: str) -> None:
    prepare(home)
    os.chown(getattr(home, name), 65534, 65534)
    with pytest.raises(LaunchFailed, match=r"belongs to another user \(uid 65534\); set CORTEX_HO"):
        prepare(home)


# Launcher


def test_daemon_is_started_in_its_home_without_the_variables_of_a_session(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SESSION_VARIABLES[0], "true")
    monkeypatch.setenv("CORTEX_CONFIG", "mine.toml")
    channel, secret = wait(home, stub(home, "ready"))
    channel.close()
    assert secret == ""
    (start,) = starts_of(home)
    assert start["cwd"] == os.path.realpath(home.root)
    assert start["environ"]["CORTEX_HOME"] == home.root
    assert SESSION_VARIABLES[0] not in start["environ"]
    # Written for the folder of whoever set it, which is not the daemon's.
    assert start["environ"]["CORTEX_CONFIG"] == str(Path.cwd() / "mine.toml")


def test_variables_of_a_session_are_kept_for_a_person_who_starts_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SESSION_VARIABLES[0], "true")
    channel, _ = wait(home, stub(home, "ready"), keep_environ=True)
    channel.close()
    assert starts_of(home)[0]["environ"][SESSION_VARIABLES[0]] == "true"


def test_error_of_the_daemon_is_raised_with_its_exit_code(home: Home) -> None:
    with pytest.raises(LaunchFailed) as caught:
        wait(home, stub(home, "error", "2", "cortex.toml:", "no", "good"))
    assert str(caught.value) == "cortex.toml: no good"
    assert caught.value.exit_code == 2


def test_daemon_that_is_killed_while_it_starts_is_started_again(home: Home) -> None:
    channel, _ = wait(home, stub(home, "killed"))
    channel.close()
    assert len(starts_of(home)) == 2
    assert not Path(home.start_error).exists()


def test_daemon_that_dies_without_a_word_is_tried_three_times_and_said_where_to_look(
    home: Home,
) -> None:
    with pytest.raises(LaunchFailed, match=f"before it was ready; see {home.crash_file}") as caught:
        wait(home, stub(home, "crash"))
    assert caught.value.exit_code == 1
    assert Path(home.crash_file).read_text() == "out of luck\n"
    assert len(starts_of(home)) == 3


def test_daemon_that_dies_after_a_long_draining_is_tried_as_often(home: Home) -> None:
    """Starts that found the home held are no failures."""
    with pytest.raises(LaunchFailed, match="before it was ready"):
        wait(home, stub(home, "draining"))
    assert len(starts_of(home)) == 5 + 3


def test_program_that_does_not_exist_is_an_error(home: Home) -> None:
    with pytest.raises(LaunchFailed, match="cannot start the daemon: No such file"):
        wait(home, ["/no/such/program"])


def test_failure_is_shared_with_those_who_wait(home: Home) -> None:
    """Two hundred bridges do not try two hundred times what cannot work."""
    first, second = (Launcher(home, stub(home, "error", "2", "no good")) for _ in range(2))
    assert first.step() is None  # has the lock, and has started it
    assert second.step() is None  # waits
    error = step_to_failure(first)
    shared = step_to_failure(second)
    assert (str(shared), shared.exit_code) == (str(error), error.exit_code) == ("no good", 2)
    assert len(starts_of(home)) == 1
    assert stat.S_IMODE(Path(home.start_error).stat().st_mode) == 0o600


def test_failure_of_the_past_does_not_keep_anybody_from_trying(home: Home) -> None:
    step_to_failure(Launcher(home, stub(home, "error", "1", "no good")))
    long_ago = time.time() - 60
    os.utime(home.start_error, (long_ago, long_ago))
    channel, _ = wait(home, stub(home, "ready"))
    channel.close()
    assert len(starts_of(home)) == 2


def test_home_that_is_held_is_tried_again_until_time_is_up(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that is draining holds the home and does not listen any more."""
    monkeypatch.setattr(launch, "START_TIMEOUT_S", 1.0)
    with pytest.raises(LaunchFailed, match=r"the daemon \(pid 4711\) did not answer within 1 s"):
        wait(home, stub(home, "held", "4711"))
    assert len(starts_of(home)) > 1


def test_launcher_that_is_closed_lets_the_next_one_start(home: Home) -> None:
    first = Launcher(home, stub(home, "held", "1"))
    assert first.step() is None
    first.close()
    channel, _ = wait(home, stub(home, "ready"))
    channel.close()


def test_command_names_the_configuration_only_if_there_is_one() -> None:
    command = daemon_command(None)
    assert command[0] == sys.executable
    assert command[-2:] == ["run", "daemon"]
    assert daemon_command("/a.toml")[-2:] == ["--config", "/a.toml"]


def test_folder_that_others_may_write_to_is_not_taken_as_a_home(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(LaunchFailed, match="others may write to"):
        prepare(Home(str(shared)))
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_who_waits_for_the_daemon_of_another_asks_ever_less_often(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(home)
    launcher = Launcher(home, stub(home, "ready"))
    began = time.monotonic()

    def pause_after(waited_s: float) -> float:
        monkeypatch.setattr(launch.time, "monotonic", lambda: began + waited_s)
        return launcher.pause_s

    assert pause_after(0) == 0.01
    assert pause_after(1) == pytest.approx(0.125, abs=0.01)
    assert pause_after(30) == 0.25
