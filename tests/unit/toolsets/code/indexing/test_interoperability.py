"""Chunk files as project-cortex 1.3.1 reads and writes them: reference §2 and §8."""

import json
import re
from pathlib import Path
from typing import Any

from code_vectors import LetterModel, embed_pending
from cortex.toolsets.code.indexing.indexer import Indexer
from cortex.toolsets.code.indexing.project import ProjectSettings
from cortex.toolsets.code.models import CHUNK_FILES

SOURCE = "MAX = 1\n\n\ndef hello(name: str) -> str:\n    return f'<{name}> & more'\n"


def indexed(root: Path) -> Path:
    (root / "a.py").write_text(SOURCE)
    (root / "b.md").write_text("# Title\n\nwords\n")
    folder = root / ".cortex" / "chunks"
    Indexer(root, folder, ProjectSettings()).run()
    return folder


def accepted(path: Path) -> list[dict[str, Any]]:
    """Read a file by the rules of `LoadChunks`: one bad chunk discards the whole file."""
    document = json.loads(path.read_bytes())
    size = document["_metadata"]["dimensions"]
    for chunk in document["chunks"]:
        vector = chunk.get("embedding")
        if not chunk["id"] or not chunk["text"] or not vector or len(vector) != size:
            return []
    return document["chunks"]


def test_files_with_vectors_are_read_by_the_release(tmp_path: Path) -> None:
    folder = indexed(tmp_path)
    embed_pending(folder, LetterModel("BAAI/bge-small-en-v1.5"))
    for kind, name in CHUNK_FILES.items():
        head = json.loads((folder / name).read_bytes())["_metadata"]
        assert list(head) == ["model", "dimensions", "chunk_type", "generated", "version"]
        assert (head["model"], head["dimensions"]) == ("BAAI/bge-small-en-v1.5", 384)
        assert (head["chunk_type"], head["version"]) == (kind, "2.0.0")
        chunks = accepted(folder / name)
        assert chunks
        for chunk in chunks:
            assert list(chunk) == [
                *("id", "chunk_type", "title", "text", "embedding", "tags", "metadata"),
                *("created_at", "updated_at"),
            ]
            assert abs(sum(x * x for x in chunk["embedding"]) - 1) < 1e-6
            assert list(chunk["metadata"]) == sorted(chunk["metadata"])
            numbered = [chunk["metadata"][f"tag_{n}"] for n in range(len(chunk["tags"]))]
            assert numbered == chunk["tags"]
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", chunk["created_at"])


def test_without_vectors_the_release_leaves_the_files_out_but_does_not_fail(tmp_path: Path) -> None:
    folder = indexed(tmp_path)
    for name in CHUNK_FILES.values():
        assert accepted(folder / name) == []
        assert json.loads((folder / name).read_bytes())["_metadata"]["model"] == ""


def test_a_type_without_chunks_has_a_file_with_an_empty_list(tmp_path: Path) -> None:
    folder = indexed(tmp_path)
    (tmp_path / "b.md").unlink()
    Indexer(tmp_path, folder, ProjectSettings()).run()
    assert json.loads((folder / "doc-chunks.json").read_bytes())["chunks"] == []


def test_the_record_has_the_keys_of_the_release(tmp_path: Path) -> None:
    record = json.loads((indexed(tmp_path) / "generator-output.json").read_bytes())
    assert record["version"] == "2.0.0"
    assert set(record["file_checksums"]) == set(record["file_mtimes"]) == {"a.py", "b.md"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", sha) for sha in record["file_checksums"].values())
    assert record["stats"]["docs_processed"] == 1
    assert record["stats"]["code_files_processed"] == 1
    assert set(record["stats"]) == {
        *("docs_processed", "code_files_processed", "total_doc_chunks"),
        *("total_code_chunks", "processing_time_seconds"),
    }


def test_files_of_the_release_are_replaced_whole(tmp_path: Path) -> None:
    """Its ids, its single line, its escapes, and a record that does not speak of ours."""
    folder = tmp_path / ".cortex" / "chunks"
    folder.mkdir(parents=True)
    chunk = {
        "id": "code-symbols-gone.go",
        "chunk_type": "symbols",
        "title": "Symbols: gone.go",
        "text": "Package: a \\u003c",
        "embedding": [0.0] * 384,
        "tags": ["code", "go", "symbols"],
        "metadata": {"file_path": "gone.go", "tag_0": "code"},
        "created_at": "2025-10-28T22:06:26.455397123-06:00",
        "updated_at": "2025-10-28T22:06:26.455397123-06:00",
    }
    for kind, name in CHUNK_FILES.items():
        head = {"model": "m", "dimensions": 384, "chunk_type": kind, "version": "2.0.0"}
        (folder / name).write_text(json.dumps({"_metadata": head, "chunks": [chunk]}))
    record = {"version": "2.0.0", "file_checksums": {"gone.go": "0" * 64}, "stats": {}}
    (folder / "generator-output.json").write_text(json.dumps(record, indent=2))
    assert indexed(tmp_path) == folder
    for name in CHUNK_FILES.values():
        text = (folder / name).read_text()
        assert "gone.go" not in text
        assert json.loads(text)["chunks"]
