"""The settings of one project: `.cortex/config.yml`, as seed 001 and its release have them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cortex.errors import SettingsError
from cortex.toolsets.code.indexing.limits import ChunkLimits
from cortex.toolsets.code.indexing.values import Values
from cortex.toolsets.code.models import ChunkType
from cortex.version import __version__

CONFIG_FILE = ".cortex/config.yml"
CHUNKS_DIR = ".cortex/chunks"
# Raise it when the same file would give other chunks than before: every project is done again.
INDEX_FORMAT = 1

DEFAULT_IGNORE = (
    "node_modules/",
    "bower_components/",
    "__pycache__/",
    ".venv/",
    "venv/",
    ".tox/",
    ".nox/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".gradle/",
    ".idea/",
    ".next/",
    ".nuxt/",
    ".terraform/",
    "Pods/",
    "DerivedData/",
    "/vendor/",
    "/dist/",
    "/build/",
    "/target/",
    "*.test",
    "*.pyc",
)
DIMENSIONS = 384
_OWN_ENDPOINTS = ("http://localhost:8121/embed", "http://127.0.0.1:8121/embed")
_MIB = 1024 * 1024
_MAX_CONFIG_BYTES = _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSection:
    """What the project says about vectors. Not obeyed: a repository may not say where code is sent.

    `cortex.toml` decides; what differs from project-cortex's own defaults is said to be unused.
    """

    provider: str | None = None
    endpoint: str | None = None

    @property
    def unused(self) -> str:
        """Return what to tell a person, or nothing."""
        is_provider = self.provider not in (None, "local")
        is_endpoint = self.endpoint not in (None, *_OWN_ENDPOINTS)
        keys = [k for k, is_set in (("provider", is_provider), ("endpoint", is_endpoint)) if is_set]
        names = " and ".join(f"embedding.{key}" for key in keys)
        return f"{names} not used: set [embedding] in cortex.toml" if keys else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsSection:
    """Which files are code and which are documents; each list replaces its default."""

    code: tuple[str, ...] | None = None
    docs: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = DEFAULT_IGNORE


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkingSection:
    """How large chunks are, in tokens of about four characters."""

    strategies: tuple[ChunkType, ...] = ("symbols", "definitions", "data")
    doc_chunk_size: int = 800
    code_chunk_size: int = 600
    overlap: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingSection:
    """Which files are too large to be worth reading."""

    max_file_bytes: int = _MIB
    max_data_bytes: int = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """Everything a project may set.

    Not a pydantic model: loading that takes a third of the time a changed file may take.
    """

    embedding: EmbeddingSection = EmbeddingSection()
    paths: PathsSection = PathsSection()
    chunking: ChunkingSection = ChunkingSection()
    chunks_path: str = CHUNKS_DIR
    indexing: IndexingSection = IndexingSection()

    @property
    def limits(self) -> ChunkLimits:
        """Return the sizes for the chunker."""
        chunking = self.chunking
        wanted: frozenset[ChunkType] = frozenset({*chunking.strategies, "documentation"})
        return ChunkLimits(
            code_tokens=chunking.code_chunk_size,
            doc_tokens=chunking.doc_chunk_size,
            overlap_tokens=chunking.overlap,
            chunk_types=wanted,
        )

    @property
    def fingerprint(self) -> str:
        """A hash of what decides how a file is cut: another one means that all are done again."""
        cut = (self.chunking, self.indexing, self.paths.code, self.paths.docs)
        parts = (INDEX_FORMAT, __version__, *cut)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def chunks_dir(self, root: Path, chosen: str | None) -> Path:
        """Return the folder of the chunk files: the one chosen, else the one configured."""
        return root / (chosen or self.chunks_path)


def read_project(root: Path) -> ProjectSettings:
    """Read the settings of a project; without a file, the defaults.

    Raises:
        SettingsError: the file cannot be read or used; says which key and why.
    """
    path = root / CONFIG_FILE
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES)
    except FileNotFoundError:
        return ProjectSettings()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    import yaml  # noqa: PLC0415  # most projects have no such file

    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" line {where.line + 1}" if where is not None else ""
        raise SettingsError(f"{path}{line}: not YAML", hint="mend or remove the file") from error
    try:
        return settings_from(values or {})
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from error


def settings_from(document: object) -> ProjectSettings:
    """Return settings from what YAML said; raises `ValueError` with the key that is wrong.

    Keys of other tools are left alone, as project-cortex does.
    """
    values = Values.of(document)
    embedding, paths = values.section("embedding"), values.section("paths")
    chunking, indexing = values.section("chunking"), values.section("indexing")
    if embedding.integer("dimensions", DIMENSIONS, 1, 8192) != DIMENSIONS:
        raise ValueError(f"embedding.dimensions must be {DIMENSIONS}: there are no other vectors")
    doc_chunk_size = chunking.integer("doc_chunk_size", 800, 50, 8000)
    overlap = chunking.integer("overlap", min(100, doc_chunk_size // 4), 0, 4000)
    if overlap >= doc_chunk_size:
        raise ValueError("chunking.overlap must be smaller than chunking.doc_chunk_size")
    return ProjectSettings(
        embedding=EmbeddingSection(
            provider=embedding.text("provider"),
            endpoint=embedding.text("endpoint"),
        ),
        paths=PathsSection(
            code=paths.texts("code"),
            docs=paths.texts("docs"),
            ignore=paths.texts("ignore") or (DEFAULT_IGNORE if not paths.has("ignore") else ()),
        ),
        chunking=ChunkingSection(
            strategies=chunking.chosen("strategies", ("symbols", "definitions", "data")),
            doc_chunk_size=doc_chunk_size,
            code_chunk_size=chunking.integer("code_chunk_size", 600, 50, 8000),
            overlap=overlap,
        ),
        chunks_path=values.section("server").text("chunks_dir") or CHUNKS_DIR,
        indexing=IndexingSection(
            max_file_bytes=indexing.integer("max_file_bytes", _MIB, 1024, 64 * _MIB),
            max_data_bytes=indexing.integer("max_data_bytes", 256 * 1024, 1024, 64 * _MIB),
        ),
    )
