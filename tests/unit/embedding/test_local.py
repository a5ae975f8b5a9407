import os
import signal
from pathlib import Path

import numpy as np
import pytest

from cortex.embedding import weights
from cortex.embedding.cache import VectorCache, key_of
from cortex.embedding.local import LocalProvider
from cortex.embedding.provider import EmbeddingOptions
from cortex.embedding.weights import Packaged, model_in, packaged_model
from cortex.errors import Unavailable
from tiny_model import WORDS, write_tiny_model

pytestmark = pytest.mark.anyio


def options(folder: Path, *, batch_size: int = 16, max_tokens: int = 128) -> EmbeddingOptions:
    return EmbeddingOptions(model_dir=folder, batch_size=batch_size, max_tokens=max_tokens)


def axis(*words: str) -> list[float]:
    vector = np.zeros(384)
    vector[[WORDS.index(word) for word in words]] = 1.0
    return (vector / np.linalg.norm(vector)).tolist()


async def test_texts_become_vectors_of_length_1_in_their_order(tmp_path: Path) -> None:
    provider = LocalProvider(options(write_tiny_model(tmp_path / "tiny"), batch_size=2))
    texts = ["cookie jar", "cookie", "session socket jar", "jar"]
    try:
        vectors = await provider.embed(texts, "passage")
    finally:
        await provider.close()
    for vector, text in zip(vectors, texts, strict=True):
        assert vector.tolist() == pytest.approx(axis(*text.split()), abs=1e-6)


async def test_questions_and_passages_have_prefixes_of_their_own(tmp_path: Path) -> None:
    provider = LocalProvider(options(write_tiny_model(tmp_path / "tiny", prompts=True)))
    try:
        asked = (await provider.embed(["jar"], "query"))[0]
        stored = (await provider.embed(["jar"], "passage"))[0]
    finally:
        await provider.close()
    assert asked.tolist() == pytest.approx(axis("query", "jar"), abs=1e-6)
    assert stored.tolist() == pytest.approx(axis("passage", "jar"), abs=1e-6)


async def test_of_a_long_text_its_beginning_counts(tmp_path: Path) -> None:
    provider = LocalProvider(options(write_tiny_model(tmp_path / "tiny"), max_tokens=8))
    try:
        vector = (await provider.embed(["cookie " * 8 + "jar " * 100_000], "passage"))[0]
    finally:
        await provider.close()
    assert vector.tolist() == pytest.approx(axis("cookie"), abs=1e-6)


async def test_a_passage_is_embedded_once_for_all_projects(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny")
    cache = tmp_path / "vectors.db"
    first = LocalProvider(options(folder), VectorCache(cache, 100))
    vectors = await first.embed(["cookie", "jar", "cookie"], "passage")
    await first.close()
    second = LocalProvider(options(folder), VectorCache(cache, 100))
    name = await second.model()
    (folder / "model.onnx").unlink()
    try:
        again = await second.embed(["jar", "cookie"], "passage")
        with pytest.raises(Unavailable):
            await second.embed(["socket"], "passage")
    finally:
        await second.close()
    assert np.allclose(again, vectors[[1, 0]], atol=1e-3)
    assert name.startswith("tiny@")


async def test_a_killed_worker_costs_one_call(tmp_path: Path) -> None:
    provider = LocalProvider(options(write_tiny_model(tmp_path / "tiny")))
    try:
        await provider.embed(["jar"], "query")
        worker = provider._desks["query"]._worker
        assert worker is not None
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="local embedding model failed"):
            await provider.embed(["jar"], "query")
        assert (await provider.embed(["jar"], "query")).shape == (1, 384)
    finally:
        await provider.close()


async def test_a_model_of_another_size_is_refused_with_its_size(tmp_path: Path) -> None:
    provider = LocalProvider(options(write_tiny_model(tmp_path / "tiny", dimensions=64)))
    try:
        with pytest.raises(Unavailable, match=r"\(1, 64\) where \(1, 384\)"):
            await provider.embed(["jar"], "query")
    finally:
        await provider.close()


def test_a_folder_without_a_model_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"it needs tokenizer\.json and model\.onnx"):
        model_in(tmp_path)


def test_the_name_of_a_model_changes_with_its_weights(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny")
    before = model_in(folder).name
    weights_file = folder / "model.onnx"
    weights_file.write_bytes(weights_file.read_bytes() + b"\0")
    assert model_in(folder).name != before


def test_a_package_with_other_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "cortex_test_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('it must not be imported')")
    (package / "model.onnx").write_bytes(b"something else")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(weights, "_MINILM", Packaged("cortex_test_weights", "model.onnx", "0" * 64))
    with pytest.raises(Unavailable, match="its checksum differs"):
        packaged_model()
    monkeypatch.setattr(weights, "_MINILM", Packaged("cortex_no_such_package", "x", "0" * 64))
    with pytest.raises(Unavailable, match="not installed"):
        packaged_model()


def test_the_cache_lets_the_oldest_go(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "vectors.db", 3)
    keys = [key_of("m", str(n)) for n in range(5)]
    for n, key in enumerate(keys):
        cache.put({key: np.eye(384, dtype=np.float32)[n]})
    assert list(cache.get(keys)) == keys[2:]
    assert key_of("other", "0") != keys[0]
    cache.close()


def test_a_damaged_cache_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "vectors.db").write_bytes(b"no database at all" * 100)
    cache = VectorCache(tmp_path / "vectors.db", 3)
    key = key_of("m", "x")
    cache.put({key: np.eye(384, dtype=np.float32)[0]})
    assert list(cache.get([key])) == [key]
    cache.close()
