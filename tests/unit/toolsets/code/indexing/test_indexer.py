"""Incremental rounds: what is done again, what is kept, and what survives."""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from code_vectors import LetterModel, embed_pending
from cortex.toolsets.code.indexing import indexer, worker
from cortex.toolsets.code.indexing.discovery import Stamp
from cortex.toolsets.code.indexing.indexer import Indexer, Report
from cortex.toolsets.code.indexing.project import (
    ProjectSettings,
    read_project,
    settings_from,
)
from cortex.toolsets.code.indexing.record import (
    FileRecord,
    Record,
    read_record,
    write_record,
)
from cortex.toolsets.code.indexing.vectors import attach, drop, pending
from cortex.toolsets.code.models import CHUNK_FILES

A = "def first():\n    return 'one'\n\n\ndef second():\n    return '" + "x" * 300 + "'\n"


class Project:
    """A folder with files, and its index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.chunks = root / ".cortex" / "chunks"
        self.indexer: Indexer | None = None

    def write(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        os.utime(path, (time.time() - 60, time.time() - 60 + len(text) / 1000))

    def index(self, **chunking: Any) -> Report:
        settings = read_project(self.root)
        if chunking:
            settings = settings_from({"chunking": chunking})
        return Indexer(self.root, self.chunks, settings).run()

    def stored(self, kind: str | None = None) -> list[dict[str, Any]]:
        names = [name for key, name in CHUNK_FILES.items() if kind in {None, key}]
        return [
            chunk
            for name in names
            for chunk in json.loads((self.chunks / name).read_text("utf-8"))["chunks"]
        ]

    def paths(self) -> set[str]:
        return {chunk["metadata"]["file_path"] for chunk in self.stored()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("a.py", A)
    project.write("docs/b.md", "# Title\n\nwords\n")
    project.write("c.toml", "[table]\nkey = 1\n")
    return project


def test_all_four_files_and_the_record_are_written(project: Project) -> None:
    report = project.index()
    assert report.files == report.files_parsed == 3
    assert {file.name for file in project.chunks.glob("*.json")} == {
        *CHUNK_FILES.values(),
        "generator-output.json",
    }
    assert report.chunks == {"symbols": 1, "definitions": 2, "data": 1, "documentation": 1}


def test_an_unchanged_project_is_not_parsed_or_written(project: Project) -> None:
    project.index()
    before = {file: file.stat().st_mtime_ns for file in project.chunks.glob("*.json")}
    report = project.index()
    assert report.files_parsed == 0
    assert not report.has_changed
    assert report.files == 3
    assert {file: file.stat().st_mtime_ns for file in project.chunks.glob("*.json")} == before


def test_a_touched_file_is_hashed_but_not_parsed(project: Project) -> None:
    project.index()
    os.utime(project.root / "a.py")
    report = project.index()
    assert report.files_parsed == 0
    assert not report.has_changed


def test_a_change_with_an_older_time_is_noticed(project: Project) -> None:
    """project-cortex takes a file for unchanged when its time is not newer."""
    project.index()
    (project.root / "a.py").write_text(A.replace("one", "two"))
    os.utime(project.root / "a.py", (1, 1))
    assert project.index().files_parsed == 1
    assert "two" in json.dumps(project.stored("definitions"))


def test_a_change_of_the_same_size_and_time_is_noticed(project: Project) -> None:
    path = project.root / "a.py"
    project.index()
    stat = path.stat()
    path.write_text(A.replace("one", "two"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert project.index().files_parsed == 1


@pytest.mark.parametrize("moment_s", [-(10**9), 10**10])
def test_a_file_from_another_age_is_indexed_once(project: Project, moment_s: int) -> None:
    os.utime(project.root / "a.py", (moment_s, moment_s))
    assert project.index().files_parsed == 3
    assert project.index().files_parsed == 0


@pytest.mark.parametrize("time_ns", [-(2**62), -1, 0, 2**63 - 1])
def test_any_time_can_be_written_down(tmp_path: Path, time_ns: int) -> None:
    file = FileRecord("0" * 64, Stamp(time_ns, time_ns, 1), (1, 0, 0, 0))
    record = Record("f", {"a.py": file}, {})
    write_record(tmp_path, record, now="now", took_s=0.0)
    assert read_record(tmp_path).files == record.files


def test_chunks_of_a_deleted_file_go_even_the_last_of_their_type(project: Project) -> None:
    project.index()
    (project.root / "docs" / "b.md").unlink()
    report = project.index()
    assert report.files_removed == 1
    assert project.stored("documentation") == []
    assert project.paths() == {"a.py", "c.toml"}


def test_only_the_edited_chunk_loses_its_vector(project: Project) -> None:
    project.index()
    embedder = LetterModel()
    assert embed_pending(project.chunks, embedder) == len(project.stored())
    assert all(len(chunk["embedding"]) == 384 for chunk in project.stored())
    embedder.asked.clear()
    project.write("a.py", "\n\n" + A.replace("xxx", "yyy"))
    project.index()
    assert {c.metadata["names"][0] for c in pending(project.chunks, "test-model")} == {"second"}
    embed_pending(project.chunks, embedder)
    assert len(embedder.asked) == 1
    assert project.index().files_parsed == 0


def test_vectors_are_carried_bit_by_bit(project: Project) -> None:
    project.index()
    embed_pending(project.chunks, LetterModel())
    before = {chunk["id"]: chunk["embedding"] for chunk in project.stored()}
    project.write("a.py", "\n" + A)
    project.index()
    after = {chunk["id"]: chunk["embedding"] for chunk in project.stored()}
    assert before == after


def test_another_model_replaces_every_vector(project: Project) -> None:
    project.index()
    embed_pending(project.chunks, LetterModel("old"))
    assert not list(pending(project.chunks, "old"))
    assert len(list(pending(project.chunks, "new"))) == len(project.stored())
    embed_pending(project.chunks, LetterModel("new", 16))
    head = json.loads((project.chunks / "doc-chunks.json").read_text())["_metadata"]
    assert (head["model"], head["dimensions"]) == ("new", 16)
    assert {len(chunk["embedding"]) for chunk in project.stored()} == {16}


def test_dropped_vectors_are_pending_and_the_record_still_holds(project: Project) -> None:
    project.index()
    count = embed_pending(project.chunks, LetterModel("old"))
    assert drop(project.chunks) == count
    assert not any("embedding" in chunk for chunk in project.stored())
    assert len(list(pending(project.chunks, "old"))) == count
    assert project.index().files_parsed == 0
    assert drop(project.chunks) == 0


def test_a_vector_for_a_chunk_that_changed_meanwhile_is_not_attached(project: Project) -> None:
    project.index()

    def edit() -> None:
        project.write("a.py", A.replace("xxx", "zzz"))
        project.index()

    embed_pending(project.chunks, LetterModel(), edit)
    waiting = [chunk.metadata["names"] for chunk in pending(project.chunks, "test-model")]
    assert waiting == [["second"]]


def test_vectors_of_a_wrong_length_are_refused(project: Project) -> None:
    project.index()
    [chunk, *_] = pending(project.chunks, "m")
    with pytest.raises(ValueError, match="384"):
        attach(project.chunks, "m", 384, {chunk.content_hash: b"\0" * 8})


def test_created_stays_and_updated_follows_the_text(project: Project) -> None:
    project.index()
    before = {chunk["id"]: chunk for chunk in project.stored("definitions")}
    project.write("a.py", A.replace("one", "two"))
    project.index()
    after = {chunk["id"]: chunk for chunk in project.stored("definitions")}
    first, second = sorted(after)
    assert after[first]["created_at"] == before[first]["created_at"]
    assert after[first]["updated_at"] > before[first]["updated_at"]
    assert after[second] == before[second]


def test_another_setting_does_everything_again_and_keeps_vectors(project: Project) -> None:
    project.index()
    embed_pending(project.chunks, LetterModel())
    assert project.index(doc_chunk_size=400).files_parsed == 3
    assert not list(pending(project.chunks, "test-model"))


def test_a_new_ignore_pattern_removes_without_parsing(project: Project) -> None:
    project.index()
    project.write(".cortexignore", "docs/\n")
    report = project.index()
    assert (report.files_parsed, report.files_removed) == (0, 1)


def test_damaged_or_foreign_chunk_files_are_made_anew(project: Project) -> None:
    project.index()
    for name, content in [
        ("code-data.json", b"{"),
        ("code-data.json", b'{"_metadata":{},"chunks":[]}'),
        ("generator-output.json", b"[]"),
        (
            "generator-output.json",
            b'{"cortex":{"fingerprint":"","generated":{},"files":{"a":[1]}}}',
        ),
        ("doc-chunks.json", None),
    ]:
        path = project.chunks / name
        path.unlink() if content is None else path.write_bytes(content)
        assert project.index().files_parsed == 3
        assert project.paths() == {"a.py", "docs/b.md", "c.toml"}


def test_a_file_that_lost_lines_is_made_anew(project: Project) -> None:
    project.index()
    path = project.chunks / "code-definitions.json"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], lines[1].rstrip(b","), *lines[-2:]]))
    project.write("c.toml", "[other]\nkey = 1\n")
    assert project.index().files_parsed == 3
    assert len(project.stored("definitions")) == 2


def test_a_line_that_somebody_changed_is_written_anew(project: Project) -> None:
    project.index()
    path = project.chunks / "code-definitions.json"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b'{"id":5},', *lines[2:]]))
    assert len(list(pending(project.chunks, "m"))) == 4
    project.write("a.py", A.replace("one", "two"))
    project.index()
    assert len(project.stored("definitions")) == 2
    assert embed_pending(project.chunks, LetterModel()) == 5


def test_a_cut_off_between_two_files_keeps_the_vectors(project: Project) -> None:
    """Killed after one of the four renames: the next run puts the others right."""
    project.index()
    embed_pending(project.chunks, LetterModel())
    old = (project.chunks / "code-symbols.json").read_bytes()
    project.write("a.py", A.replace("first", "third"))
    project.index()
    (project.chunks / "code-symbols.json").write_bytes(old)
    project.index()
    [symbols] = project.stored("symbols")
    assert "third" in symbols["text"]
    waiting = {chunk.chunk_type for chunk in pending(project.chunks, "test-model")}
    assert waiting == {"symbols", "definitions"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_said_once_and_keeps_its_chunks(project: Project) -> None:
    project.index()
    project.write("a.py", "changed = 1\n")
    (project.root / "a.py").chmod(0)
    indexer = Indexer(project.root, project.chunks, ProjectSettings())
    assert indexer.run().problems == {"a.py": "Permission denied"}
    assert indexer.run().problems == {}
    assert "a.py" in project.paths()


def test_a_file_that_no_longer_parses_keeps_its_chunks(project: Project) -> None:
    project.write("k.kt", "fun one() = 1\n")
    project.index()
    project.write("k.kt", ")))) ]]]]\n" * 5)
    report = project.index()
    assert report.problems == {"k.kt": "cannot be parsed"}
    assert any("fun one" in chunk["text"] for chunk in project.stored())
    assert project.index().files_parsed == 0


def test_skipped_content_is_counted_and_not_read_again(project: Project) -> None:
    project.write("blob.py", b"\0\1\2")
    project.write("gen.go", "// Code generated by x. DO NOT EDIT.\npackage a\n")
    project.write("packed.js", "var a=1;" * 2000)
    report = project.index()
    assert report.skipped == {"binary": 1, "generated": 1, "minified": 1, "ignored": 1}
    again = project.index()
    assert again.skipped == report.skipped
    assert not again.has_changed


def test_many_files_are_cut_by_workers_as_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, many = Project(tmp_path / "one"), Project(tmp_path / "many")
    for project in (one, many):
        for number in range(80):
            project.write(f"p/f{number}.py", f"def f_{number}():\n    return {number}\n")
    many.index()
    monkeypatch.setattr(indexer, "WORTH_FILES", 1000)
    one.index()
    assert texts(one.stored()) == texts(many.stored())


def texts(chunks: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(chunk["id"], chunk["text"]) for chunk in chunks]


def test_a_file_that_ends_or_stops_its_worker_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path)
    for number in range(80):
        project.write(f"f{number}.py", f"def f_{number}():\n    return {number}\n")
    real = worker.Worker.do

    def do(self: worker.Worker, jobs: Any) -> Any:
        if any(job.path == "f7.py" for job in jobs):
            self._process.kill()
        return real(self, jobs)

    monkeypatch.setattr(worker.Worker, "do", do)
    report = project.index()
    assert report.problems == {"f7.py": "its parser failed"}
    assert report.files_parsed == 79
