"""`cortex index` as a person runs it: real processes, real kills, and a tree that means harm."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from code_vectors import LetterModel, embed_pending
from harness import CORTEX, eventually

pytestmark = pytest.mark.e2e

FILES = ("code-symbols.json", "code-definitions.json", "code-data.json", "doc-chunks.json")


# Root may read everything: without these rights it is like anybody else.
_RIGHTS = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"]
UNPRIVILEGED = [*(_RIGHTS if os.geteuid() == 0 else []), *CORTEX]


def cortex_index(
    root: Path, *arguments: str, command: Sequence[str] = CORTEX, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, "index", str(root), *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        **options,
    )


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stored(root: Path) -> dict[str, list[dict[str, Any]]]:
    folder = root / ".cortex" / "chunks"
    return {name: json.loads((folder / name).read_bytes())["chunks"] for name in FILES}


def texts(root: Path) -> str:
    return "\n".join(chunk["text"] for chunks in stored(root).values() for chunk in chunks)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for number in range(20):
        (tmp_path / f"m{number}.py").write_text(f"def f_{number}():\n    return {number}\n")
    (tmp_path / "README.md").write_text("# Title\n\nwords\n")
    return tmp_path


def test_a_person_sees_what_was_done(project: Path) -> None:
    done = cortex_index(project)
    assert done.returncode == 0, done.stderr
    assert "chunks of 21 files" in done.stdout
    assert cortex_index(project, "--quiet").stdout == ""


def test_a_terminal_shows_files_chunks_a_second_and_the_time_left(project: Path) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*CORTEX, "index", str(project)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    assert process.wait() == 0
    assert b"21/21" in shown
    assert b"chunks/s" in shown
    assert b"0:00:0" in shown


def test_vectors_can_be_dropped(project: Path) -> None:
    cortex_index(project)
    folder = project / ".cortex" / "chunks"
    embed_pending(folder, LetterModel())
    assert all("embedding" in chunk for chunk in stored(project)["code-definitions.json"])
    assert report_of(cortex_index(project, "--re-embed", "--json"))["has_changed"]
    assert not any("embedding" in chunk for chunk in stored(project)["code-definitions.json"])


def test_json_says_everything(project: Path) -> None:
    first = report_of(cortex_index(project, "--json"))
    assert first["files"] == first["files_parsed"] == 21
    assert first["chunks_dir"] == str(project / ".cortex" / "chunks")
    second = report_of(cortex_index(project, "--json"))
    assert (second["files_parsed"], second["has_changed"]) == (0, False)


def test_the_chunks_folder_can_be_chosen(project: Path, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    environ = {**os.environ, "CORTEX_CHUNKS_DIR": str(folder)}
    assert cortex_index(project, env=environ).returncode == 0
    assert {file.name for file in folder.glob("*.json")} == {*FILES, "generator-output.json"}


def test_bad_settings_and_folders_are_one_line(project: Path) -> None:
    (project / ".cortex").mkdir()
    (project / ".cortex" / "config.yml").write_text("chunking:\n  overlap: -1\n")
    done = cortex_index(project)
    assert done.returncode != 0
    assert "config.yml: chunking.overlap" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert cortex_index(project / "nowhere").returncode == 2


def test_git_does_not_see_the_chunks(project: Path) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    cortex_index(project)
    status = subprocess.run(
        ["git", "-C", str(project), "status", "--porcelain"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ".cortex" not in status.stdout


def test_two_at_once_wait_for_each_other(project: Path) -> None:
    running = [
        subprocess.Popen([*CORTEX, "index", str(project), "--json"], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    reports = [json.loads(process.communicate(timeout=50)[0]) for process in running]
    assert sorted(report["files_parsed"] for report in reports) == [0, 0, 21]


def test_killed_at_any_moment_the_files_are_the_old_or_the_new_ones(project: Path) -> None:
    cortex_index(project)
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for number in range(12):
        for path in project.glob("*.py"):
            path.write_text(f"def g_{number}():\n    return '{path.name}'\n")
        process = subprocess.Popen([*CORTEX, "index", str(project), "-q"], env=environ)
        time.sleep(0.02 * number + 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for chunks in stored(project).values():
            assert all(chunk["text"] for chunk in chunks)
    report = report_of(cortex_index(project, "--json"))
    assert report["files"] == 21
    definitions = [chunk["text"] for chunk in stored(project)["code-definitions.json"]]
    assert len(definitions) == 20
    assert all("g_11" in text for text in definitions)


@pytest.fixture
def watching(project: Path) -> Iterator[Path]:
    command = [*CORTEX, "index", str(project), "--watch", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    drain = threading.Thread(target=lambda: process.stdout and process.stdout.read())
    drain.start()
    try:
        eventually((project / ".cortex/chunks/generator-output.json").exists, "the first round")
        yield project
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        drain.join()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def test_watch_follows_edits_new_folders_deletions_and_mass_changes(watching: Path) -> None:
    (watching / "m1.py").write_text("def edited_here():\n    return 1\n")
    eventually(lambda: "edited_here" in texts(watching), "an edit")
    (watching / "new" / "deep").mkdir(parents=True)
    (watching / "new" / "deep" / "a.py").write_text("def in_a_new_folder(): ...\n")
    eventually(lambda: "in_a_new_folder" in texts(watching), "a new folder")
    (watching / "new").rename(watching / "moved")
    eventually(lambda: '"moved/deep' in json.dumps(stored(watching)), "a renamed folder")
    for number in range(300):
        (watching / f"many_{number}.py").write_text(f"def many_{number}(): ...\n")
    (watching / "m1.py").unlink()
    eventually(
        lambda: "many_299" in texts(watching) and "edited_here" not in texts(watching), "all"
    )
    assert "new/deep" not in json.dumps(stored(watching))


def test_watch_takes_new_settings_and_survives_bad_ones(watching: Path) -> None:
    config = watching / ".cortex" / "config.yml"
    config.write_text("chunking: 5\n")
    (watching / "m2.py").write_text("def while_broken(): ...\n")
    time.sleep(1.0)
    config.write_text("paths:\n  ignore: ['m3.py']\n")
    eventually(lambda: "while_broken" in texts(watching), "the good settings")
    eventually(lambda: "f_3()" not in texts(watching), "the new pattern")


def hostile(root: Path) -> None:
    """Write files that no indexer should trip over."""
    root.mkdir(exist_ok=True)
    (root / "line.js").write_text("var a = 1; " * 950_000)
    (root / "wide.txt").write_text("words and words " * 60_000)
    (root / "latin.py").write_bytes("def gr\xfc\xdfe():\n    return '\xe4'\n".encode("latin-1"))
    (root / "junk.py").write_bytes(bytes(range(1, 256)) * 400)
    (root / "nested.py").write_text("x = " + "(" * 20_000 + ")" * 20_000 + "\n")
    (root / "nested.json").write_text("[" * 50_000 + "]" * 50_000)
    (root / "nested.js").write_text("\n".join(["function a() {"] * 5_000 + ["}"] * 5_000))
    (root / "open.c").write_text("#if 1\n" * 5_000 + "int x;\n")
    (root / "yaml.md").write_text("---\na: &a [x]\n" + "b: [*a, *a]\n" * 50 + "---\n# Title\n")
    (root / "bad.md").write_text("---\ntags: [\n---\n# Title\n\nreadable words\n")
    (root / "quotes.py").write_text('"""' * 20_001)
    (root / "nul.py").write_bytes(b"def a(): ...\n\0\n")
    (root / "loop").symlink_to(".")
    (root / "self.py").symlink_to("self.py")
    (root / "gone.py").symlink_to("nothing.py")
    os.mkfifo(root / "pipe.py")
    (root / b"name\xff.py".decode("utf-8", "surrogateescape")).write_text("x = 1\n")
    (root / "new\nline.py").write_text("def with_a_strange_name(): ...\n")
    deep = root
    for _ in range(120):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "a.py").write_text("def too_deep(): ...\n")
    closed = root / "closed.py"
    closed.write_text("def closed(): ...\n")
    closed.chmod(0)
    folder = root / "closed"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    folder.chmod(0)
    (root / "good.py").write_text("def good_after_all():\n    return 1\n")


def test_a_tree_of_hostile_files_is_indexed_around_them(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    hostile(root)
    stop = threading.Event()

    def scribble() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (root / "busy.py").write_text(f"def busy_{number}():\n    return {number}\n" * 500)

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        reports = [report_of(cortex_index(root, "--json", command=UNPRIVILEGED)) for _ in range(2)]
    finally:
        stop.set()
        thread.join()
        (root / "closed").chmod(0o755)
    assert {"closed", "closed.py"} <= set(reports[0]["problems"])
    skipped = reports[0]["skipped"]
    assert skipped["huge"] == 1
    assert skipped["symlink"] == 3
    assert skipped["special"] == 1
    assert skipped["name"] == 1
    assert skipped["binary"] == 1
    assert reports[1]["files_parsed"] <= 1  # only the one that keeps changing
    report_of(cortex_index(root, "--json"))
    found = texts(root)
    for words in ("good_after_all", "readable words", "with_a_strange_name", "busy_"):
        assert words in found
    assert max(len(c["text"]) for chunks in stored(root).values() for c in chunks) < 40_000
