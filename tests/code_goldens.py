"""The chunks of small files in every language, as text: compared by a test, written by hand.

`python tests/code_goldens.py --update` writes them anew; review the diff.
"""

import json
import sys
from pathlib import Path

from cortex.toolsets.code.indexing.catalog import language_of
from cortex.toolsets.code.indexing.chunker import chunk_file
from cortex.toolsets.code.indexing.project import ProjectSettings
from cortex.toolsets.code.models import Chunk

SOURCES = Path(__file__).parent / "fixtures" / "code"
FOLDER = Path(__file__).parent / "golden" / "code"


def chunks_of(name: str) -> tuple[Chunk, ...]:
    """Return the chunks of the one file in the folder of a language."""
    file = next((SOURCES / name).iterdir())
    source = file.read_bytes()
    language = language_of(file.name, source)
    assert language is not None
    path = file.relative_to(SOURCES).as_posix()
    return chunk_file(language, path, source, ProjectSettings().limits).chunks


def names() -> list[str]:
    """Return every language that has a file here."""
    return sorted(folder.name for folder in SOURCES.iterdir())


def golden(name: str) -> str:
    """Return everything about the chunks of a language that is written to disk."""
    return "\n".join(_shown(chunk) for chunk in chunks_of(name))


def _shown(chunk: Chunk) -> str:
    metadata = json.dumps(dict(sorted(chunk.metadata.items())), ensure_ascii=False)
    head = f"=== {chunk.id}\n{chunk.title}\n{', '.join(chunk.tags)}\n{metadata}\n"
    return f"{head}---\n{chunk.text}\n"


def main(arguments: list[str]) -> int:
    """Compare the files, or with `--update` write them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = [name for name in names() if _read(name) != golden(name)]
    for name in stale:
        if arguments == ["--update"]:
            (FOLDER / f"{name}.txt").write_text(golden(name), "utf-8")
        sys.stdout.write(f"{name} is stale\n")
    return 1 if stale and not arguments else 0


def _read(name: str) -> str:
    path = FOLDER / f"{name}.txt"
    return path.read_text("utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
