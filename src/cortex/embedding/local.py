"""The local provider: a packaged model in processes of its own, started on first use.

Questions and passages have a process each: whoever asks does not wait for an index.
"""

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial

import anyio.to_thread
import numpy as np

from cortex.embedding.cache import VectorCache, key_of
from cortex.embedding.provider import EmbeddingOptions, Mode, Vectors
from cortex.embedding.weights import ModelFiles, model_in, packaged_model
from cortex.embedding.worker import Setup, Worker, WorkerEnded
from cortex.errors import Unavailable

IDLE_S = 120.0
_PASSAGE_NICE = 10
# Texts handed over at once: an index that is broken off loses no more than this.
_HANDFUL = 64


class LocalProvider:
    """Vectors made on this machine."""

    def __init__(self, options: EmbeddingOptions, cache: VectorCache | None = None) -> None:
        self._options = options
        self._cache = cache
        self._lock = threading.Lock()
        self._files: ModelFiles | None = None
        cores = os.cpu_count() or 1
        self._desks = {
            "query": _Desk(partial(self._setup, threads=1, nice=0)),
            "passage": _Desk(partial(self._setup, threads=max(1, cores // 2), nice=_PASSAGE_NICE)),
        }

    async def model(self) -> str:
        return (await anyio.to_thread.run_sync(self._model)).name

    async def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        return await anyio.to_thread.run_sync(self.embed_now, texts, mode)

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self.close_now)

    def embed_now(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """Return a vector for each text, blocking."""
        if self._cache is None or mode == "query":
            return self._made(texts, mode)
        keys = [key_of(self._model().name, text) for text in texts]
        known = self._cache.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for begin in range(0, len(missing), _HANDFUL):
            some = dict(list(missing.items())[begin : begin + _HANDFUL])
            made = dict(zip(some, self._made(list(some.values()), mode), strict=True))
            self._cache.put(made)
            known |= made
        return np.stack([known[key] for key in keys]).astype(np.float32)

    def close_now(self) -> None:
        """End the processes and close the cache."""
        for desk in self._desks.values():
            desk.close()
        if self._cache is not None:
            self._cache.close()

    def _made(self, texts: Sequence[str], mode: Mode) -> Vectors:
        rows = [
            self._desks[mode].embed(some, mode, timeout_s=self._options.timeout_s)
            for begin in range(0, len(texts), _HANDFUL)
            if (some := texts[begin : begin + _HANDFUL])
        ]
        return np.concatenate(rows)

    def _setup(self, *, threads: int, nice: int) -> Setup:
        options = self._options
        return Setup(self._model(), options.max_tokens, options.batch_size, threads, nice)

    def _model(self) -> ModelFiles:
        with self._lock:
            if self._files is None:
                folder = self._options.model_dir
                self._files = model_in(folder) if folder else packaged_model()
            return self._files


class _Desk:
    """One worker, for one caller at a time; it goes home when nobody comes for a while."""

    def __init__(self, setup: Callable[[], Setup]) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._leaving: threading.Timer | None = None

    def embed(self, texts: Sequence[str], mode: Mode, *, timeout_s: float) -> Vectors:
        with self._lock:
            if self._leaving is not None:
                self._leaving.cancel()
            try:
                self._worker = self._worker or Worker(self._setup())
                return self._worker.embed(texts, mode, timeout_s=timeout_s)
            except (WorkerEnded, OSError) as error:
                self._dismiss()
                raise Unavailable(f"The local embedding model failed: {error}") from error
            finally:
                self._leaving = threading.Timer(IDLE_S, self.close)
                self._leaving.daemon = True
                self._leaving.start()

    def close(self) -> None:
        with self._lock:
            if self._leaving is not None:
                self._leaving.cancel()
            self._dismiss()

    def _dismiss(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
