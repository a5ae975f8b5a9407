"""Which files are read: reference §2.6 shows what goes wrong without these."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from cortex.errors import SettingsError
from cortex.toolsets.code.indexing.discovery import Discovery, Found
from cortex.toolsets.code.indexing.indexer import Indexer
from cortex.toolsets.code.indexing.project import ProjectSettings, read_project


def tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def find(root: Path) -> Found:
    return Discovery(root, read_project(root)).find()


def test_git_and_cortex_ignore_files_are_honoured(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            ".gitignore": "*.log.py\n/only_here.py\nout/\n",
            ".cortexignore": "secret/\n!kept.log.py\n",
            "a.log.py": "1",
            "kept.log.py": "1",
            "only_here.py": "1",
            "sub/only_here.py": "1",
            "sub/out/a.py": "1",
            "secret/a.py": "1",
            "sub/.gitignore": "local.py\n!b.log.py\n",
            "sub/local.py": "1",
            "sub/b.log.py": "1",
            ".git/info/exclude": "excluded.py\n",
            "excluded.py": "1",
        },
    )
    assert sorted(find(tmp_path).files) == ["kept.log.py", "sub/b.log.py", "sub/only_here.py"]


def test_ignore_files_above_a_part_of_a_repository_count(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {".git/HEAD": "", ".gitignore": "part/gen/\n", "part/gen/a.py": "1", "part/b.py": "1"},
    )
    assert list(find(tmp_path / "part").files) == ["b.py"]


def test_node_modules_are_left_out_at_any_depth(tmp_path: Path) -> None:
    tree(tmp_path, {"web/node_modules/x/a.js": "1", "web/a.js": "1", "node_modules/b.js": "1"})
    assert list(find(tmp_path).files) == ["web/a.js"]


def test_a_configured_folder_pattern_means_nested_folders_too(tmp_path: Path) -> None:
    config = "paths:\n  ignore: ['third_party/**', '**/*_gen.py']\n"
    names = {"a/third_party/x.py": "1", "third_party/y.py": "1", "a/b_gen.py": "1", "a/c.py": "1"}
    tree(tmp_path, {".cortex/config.yml": config, **names})
    assert list(find(tmp_path).files) == ["a/c.py"]


def test_configured_code_and_docs_patterns_choose(tmp_path: Path) -> None:
    config = "paths:\n  code: ['src/**/*.py']\n  docs: ['docs/**', '*.special']\n"
    names = ("src/a.py", "src/b/c.py", "other.py", "docs/a.md", "readme.md", "x.special")
    tree(tmp_path, {".cortex/config.yml": config, **dict.fromkeys(names, "1")})
    assert sorted(find(tmp_path).files) == ["docs/a.md", "src/a.py", "src/b/c.py", "x.special"]


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "huge.py": "x" * 2_000_000,
            "a.min.js": "1",
            "package-lock.json": "{}",
            "photo.png": b"\x89PNG",
            "a.py": "1",
        },
    )
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe.py")
    found = find(tmp_path)
    assert list(found.files) == ["a.py"]
    assert found.skipped == {"huge": 1, "generated": 2, "unknown": 1, "symlink": 2, "special": 1}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_said(tmp_path: Path) -> None:
    tree(tmp_path, {"closed/a.py": "1"})
    (tmp_path / "closed").chmod(0)
    try:
        assert find(tmp_path).unreadable == {"closed": "Permission denied"}
    finally:
        (tmp_path / "closed").chmod(0o755)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("paths: [", "not YAML"),
        ("- a\n", "sections"),
        ("chunking:\n  doc_chunk_size: many\n", "chunking.doc_chunk_size"),
        ("chunking:\n  overlap: 900\n", "overlap must be smaller"),
        ("chunking:\n  strategies: [everything]\n", "chunking.strategies"),
        ("embedding:\n  dimensions: 768\n", "embedding.dimensions must be 384"),
    ],
)
def test_a_bad_configuration_is_said_with_its_key(tmp_path: Path, config: str, says: str) -> None:
    tree(tmp_path, {".cortex/config.yml": config})
    with pytest.raises(SettingsError, match=says) as caught:
        read_project(tmp_path)
    assert "config.yml" in str(caught.value)


def test_without_a_file_and_with_unknown_keys_the_defaults_hold(tmp_path: Path) -> None:
    assert read_project(tmp_path) == ProjectSettings()
    tree(tmp_path, {".cortex/config.yml": "chunking:\n  doc_overlap: 3\nother: 1\n"})
    assert read_project(tmp_path).limits == ProjectSettings().limits


def test_a_repository_does_not_say_where_code_is_sent(tmp_path: Path) -> None:
    config = "embedding:\n  provider: local\n  endpoint: http://localhost:8121/embed\n"
    tree(tmp_path, {".cortex/config.yml": config})
    assert read_project(tmp_path).embedding.unused == ""
    tree(tmp_path, {".cortex/config.yml": "embedding:\n  endpoint: https://elsewhere/embed\n"})
    unused = read_project(tmp_path).embedding.unused
    assert unused == "embedding.endpoint not used: set [embedding] in cortex.toml"
    problems = Indexer(tmp_path, tmp_path / "chunks", read_project(tmp_path)).run().problems
    assert problems == {".cortex/config.yml": unused}


def test_strategies_choose_the_types_of_code_chunks(tmp_path: Path) -> None:
    tree(tmp_path, {".cortex/config.yml": "chunking:\n  strategies: [symbols]\n"})
    assert read_project(tmp_path).limits.chunk_types == {"symbols", "documentation"}
