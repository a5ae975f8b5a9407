import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from code_chunks import chunk, write_chunks
from cortex.toolsets.code.building import build
from cortex.toolsets.code.loading import CorruptChunks, read_files

UNIT = [1.0] + [0.0] * 383
OLD = {
    "id": "code-symbols-internal/auth/handler.go",
    "chunk_type": "symbols",
    "title": "Symbols: internal/auth/handler.go",
    "text": 'Package: auth\n\nTypes:\n  - Pair<K> (struct) (lines 1-2)\n "embedding":[1',
    "embedding": UNIT,
    "metadata": {
        "file_path": "internal/auth/handler.go",
        "language": "go",
        "tag_0": "code",
        "tag_1": "go",
        "tag_10": "last",
        "tag_2": "symbols",
    },
    "created_at": "2025-10-28T22:06:26.455397123-06:00",
    "updated_at": "2025-10-28T22:06:26.455397123-06:00",
}


def write(folder: Path, name: str, *chunks: Any, indent: int | None = None, **head: Any) -> None:
    folder.mkdir(exist_ok=True)
    about = {"model": "BAAI/bge-small-en-v1.5", "dimensions": 384, **head}
    text = json.dumps({"_metadata": about, "chunks": chunks}, indent=indent)
    (folder / name).write_text(text.replace("<", "\\u003c"))


@pytest.mark.parametrize("indent", [None, 2])
def test_files_of_project_cortex_are_read(tmp_path: Path, indent: int | None) -> None:
    write(tmp_path, "code-symbols.json", OLD, indent=indent)
    (tmp_path / "generator-output.json").write_text('{"version": "2.0.0"}')
    project = build(read_files(tmp_path))
    stored = json.loads(project.stored[0])
    assert stored["text"] == OLD["text"]
    assert stored["tags"] == ["code", "go", "symbols", "last"]
    assert stored["metadata"] == {"file_path": "internal/auth/handler.go", "language": "go"}
    assert "embedding" not in stored
    assert project.vectors is not None
    assert project.vectors.model == "BAAI/bge-small-en-v1.5"
    assert project.vectors.rows[0].tolist() == UNIT
    assert project.problems == ()


def test_one_bad_chunk_is_left_out_alone(tmp_path: Path) -> None:
    bad: list[Any] = [
        {**OLD, "id": ""},
        {key: value for key, value in OLD.items() if key != "text"},
        {**OLD, "id": "b", "chunk_type": "poem"},
        OLD,
        OLD,
    ]
    write(tmp_path, "code-symbols.json", *bad)
    project = build(read_files(tmp_path))
    assert [json.loads(project.stored[n])["id"] for n in range(len(project))] == [OLD["id"]]
    assert project.problems == (
        "code-symbols.json: a chunk is left out: it has no id or no text",
        "code-symbols.json: a chunk is left out: it has no text",
        "code-symbols.json: a chunk is left out: there is no chunk type poem",
        f"code-symbols.json: a chunk is left out: {OLD['id']} is there twice",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"chunks": 3}',
        '{"chunks": [3]}',
        '{"_metadata": {}, "chunks": [{"id": "a", "embedding": [1.0,',
        '{"_metadata": [], "chunks": [{"id": "a"}]',
    ],
)
def test_a_file_that_is_not_whole_is_corrupt(tmp_path: Path, text: str) -> None:
    (tmp_path / "code-data.json").write_text(text)
    with pytest.raises(CorruptChunks, match=r"^code-data\.json: "):
        build(read_files(tmp_path))


def by_line(chunks: list[Any], end: str = "\n]}\n") -> str:
    """Write chunks as our indexer does: each on a line of its own."""
    head = json.dumps({"model": "m", "dimensions": 384})
    lines = ",\n".join(json.dumps(item) for item in chunks)
    return f'{{"_metadata":{head},"chunks":[\n{lines}{end}'


def test_files_with_a_chunk_a_line_are_read_like_any_other(tmp_path: Path) -> None:
    items = [{**OLD, "id": f"{n}", "text": "a line\nand more ]}"} for n in range(3)]
    (tmp_path / "code-symbols.json").write_text(by_line(items))
    project = build(read_files(tmp_path))
    assert [json.loads(project.stored[n])["id"] for n in range(3)] == ["0", "1", "2"]
    assert project.vectors is not None
    assert project.vectors.is_there.all()
    (tmp_path / "code-symbols.json").write_text(by_line([]))
    assert len(build(read_files(tmp_path))) == 0


@pytest.mark.parametrize("end", ["", ",\n", "\n]", ',\n{"id": "a", "te\n]}\n'])
def test_a_file_of_lines_that_is_cut_off_is_corrupt(tmp_path: Path, end: str) -> None:
    (tmp_path / "code-symbols.json").write_text(by_line([OLD], end))
    with pytest.raises(CorruptChunks):
        build(read_files(tmp_path))


def test_missing_files_are_empty(tmp_path: Path) -> None:
    write(tmp_path, "doc-chunks.json")
    assert len(build(read_files(tmp_path))) == 0
    assert read_files(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([1.0, 2.0], "it has 2 values, not 384 numbers"),
        ([0.0] * 384, "it has no direction"),
        (["a"] * 384, "it has 384 values, not 384 numbers"),
    ],
)
def test_a_vector_that_is_none_is_left_out(tmp_path: Path, vector: Any, reason: str) -> None:
    write(tmp_path, "code-symbols.json", {**OLD, "embedding": vector})
    project = build(read_files(tmp_path))
    assert project.vectors is None
    assert project.problems == (f"{OLD['id']}: its vector is left out: {reason}",)


def test_vectors_of_two_models_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, "code-symbols.json", OLD)
    write(tmp_path, "code-data.json", {**OLD, "id": "b", "chunk_type": "data"}, model="other")
    project = build(read_files(tmp_path))
    assert project.vectors is None
    assert "embedded by BAAI/bge-small-en-v1.5 (384) and other (384)" in project.problems[0]


def test_what_is_unchanged_is_taken_over(tmp_path: Path) -> None:
    """A reload costs what changed; the answers are those of a fresh load."""
    kept = chunk("a.py", "def keep(): cookies", "keep")
    gone = chunk("b.py", "def gone(): away", "gone")
    came = chunk("c.py", "def came(): cookies and more", "came")
    vectors = {kept.id: UNIT, gone.id: UNIT, came.id: UNIT[::-1]}
    write_chunks(tmp_path, [gone, kept], vectors)
    before = build(read_files(tmp_path))
    write_chunks(tmp_path, [kept, came], vectors)
    after, fresh = build(read_files(tmp_path), before), build(read_files(tmp_path))
    assert after.vocabulary is before.vocabulary
    assert len(after) == len(fresh) == 2
    assert np.array_equal(after.postings.words, fresh.postings.words)
    assert after.vectors is not None
    assert fresh.vectors is not None
    assert np.array_equal(after.vectors.rows, fresh.vectors.rows)
    for term in ("cooki", "gone", "more"):
        chunks = [p.postings.of_term(p.vocabulary.find(term))[0].tolist() for p in (after, fresh)]
        assert chunks[0] == chunks[1]


def test_a_worn_vocabulary_is_begun_anew(tmp_path: Path) -> None:
    write_chunks(tmp_path, [chunk("a.py", " ".join(f"word{n}" for n in range(100)))])
    first = build(read_files(tmp_path))
    write_chunks(tmp_path, [chunk("a.py", "short")])
    second = build(read_files(tmp_path), first)
    third = build(read_files(tmp_path), second)
    assert second.vocabulary is first.vocabulary
    assert len(third.vocabulary) < 10
