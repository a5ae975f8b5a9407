import io
from pathlib import Path

import pytest

from cortex.toolsets.conversations.ingest.files import (
    look_at,
    look_of,
    moved_from,
    owner_of,
    resume,
)
from cortex.toolsets.conversations.ingest.globs import files_of, matches, root_of
from cortex.toolsets.conversations.ingest.lines import next_line, read_lines
from cortex.toolsets.conversations.ingest.values import Checkpoint
from cortex.toolsets.conversations.sources.catalog import source


def checkpoint(path: Path, offset: int) -> Checkpoint:
    facts = look_at(str(path), offset)
    return Checkpoint(
        "s", str(path), str(path), facts.inode, offset=offset, head=facts.head, tail=facts.tail
    )


def test_a_file_that_grew_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\ntwo\n")
    known = checkpoint(path, 8)
    path.write_bytes(b"one\ntwo\nthree\n")
    assert resume(known, look_at(str(path), 8)) == known


@pytest.mark.parametrize("text", [b"one\n", b"other\ntwo\nthree\n", b"one\ntow\nthree\n", b""])
def test_a_file_that_is_another_now_begins_anew(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\ntwo\n")
    known = checkpoint(path, 8)
    path.write_bytes(text)
    again = resume(known, look_at(str(path), 8))
    assert (again.offset, again.generation, again.origin) == (0, 1, str(path))


def test_a_file_is_known_by_its_new_name_only_when_the_old_one_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\ntwo\n")
    known = checkpoint(path, 8)
    linked = tmp_path / "b"
    linked.hardlink_to(path)
    assert moved_from(look_at(str(linked), 0), [known]) is None
    path.unlink()
    assert moved_from(look_at(str(linked), 0), [known]) == known


def test_a_database_looks_changed_when_its_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"x")
    before = look_of(str(path))
    (tmp_path / "a.db-wal").write_bytes(b"y")
    assert look_of(str(path)) != before
    assert look_of(str(tmp_path / "none.db")) == ()
    assert owner_of(str(tmp_path / "a.db-wal")) == str(path)
    assert owner_of("/x/notes-wal") == "/x/notes-wal"


def test_only_complete_lines_are_read_and_too_long_ones_are_told() -> None:
    file = io.BytesIO(b"one\n" + b"x" * 50 + b"\ntwo\nhal")
    found = [
        (line.number, line.offset, line.raw)
        for line in read_lines(file, offset=0, line_no=0, max_line_bytes=10)
    ]
    assert found == [(1, 0, b"one"), (2, 4, None), (3, 55, b"two")]


def test_the_rest_of_a_file_is_a_line_on_request_if_it_is_json() -> None:
    whole, half = io.BytesIO(b'{"a": 1}\n{"b": 2}'), io.BytesIO(b'{"a": 1}\n{"b":')
    (_, last) = read_lines(whole, offset=0, line_no=0, takes_rest=True)
    assert (last.number, last.offset, last.end, last.raw) == (2, 9, 17, b'{"b": 2}')
    assert len(list(read_lines(half, offset=0, line_no=0, takes_rest=True))) == 1


def test_the_newline_of_a_line_that_was_read_without_it_begins_no_other() -> None:
    file = io.BytesIO(b"one\ntwo\nthree")
    assert [next_line(file, offset) for offset in (0, 4, 7, 13)] == [0, 4, 8, 13]


@pytest.mark.parametrize(
    ("path", "glob", "is_match"),
    [
        ("/a/b/c.jsonl", "/a/**/*.jsonl", True),
        ("/a/c.jsonl", "/a/**/*.jsonl", True),
        ("/a/.b/c.jsonl", "/a/**/*.jsonl", True),
        ("/a/b/c.json", "/a/**/*.jsonl", False),
        ("/a/b/c", "/a/*", False),
        ("/a", "/a/**", True),
        ("/a/b/c", "/a/**", True),
        ("/ab", "/a/**", False),
        ("/a/x1", "/a/x[0-9]", True),
        ("/a/x1", "/a/x[!0-9]", False),
        ("/a/b+c", "/a/b+c", True),
    ],
)
def test_a_glob_means_what_it_says(path: str, glob: str, is_match: bool) -> None:
    assert matches(path, [glob]) is is_match


def test_the_files_of_a_source_lie_below_its_root(tmp_path: Path) -> None:
    kept = tmp_path / "p" / "s" / "a.jsonl"
    journal = tmp_path / "p" / "s" / "subagents" / "workflows" / "w" / "journal.jsonl"
    for path in (kept, journal, tmp_path / "p" / "audit.jsonl", tmp_path / "p" / "notes.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    made = source("claude", "claude-code", f"{tmp_path}/p/**/*.jsonl")
    assert files_of(made) == [str(kept)]
    assert root_of(made) == f"{tmp_path}/p"
