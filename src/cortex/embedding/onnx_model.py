"""One sentence-embedding model in ONNX Runtime on the CPU. Used in the worker process only."""

from collections.abc import Sequence

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from cortex.embedding.provider import Mode, Vectors, as_rows
from cortex.embedding.weights import ModelFiles

# A token is seldom longer; what is cut off here, the tokenizer would read in vain.
_CHARS_PER_TOKEN = 16


class OnnxModel:
    """Texts to vectors, a batch at a time."""

    def __init__(
        self, files: ModelFiles, *, max_tokens: int, batch_size: int, threads: int
    ) -> None:
        self._files = files
        self._batch_size = batch_size
        self._max_chars = max_tokens * _CHARS_PER_TOKEN
        self._tokenizer = Tokenizer.from_file(files.tokenizer)
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Memory that one long batch took is given back, not kept for the next.
        options.enable_cpu_mem_arena = False
        self._session = onnxruntime.InferenceSession(
            files.weights, options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {given.name for given in self._session.get_inputs()}
        outputs = [given.name for given in self._session.get_outputs()]
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """Return a vector for each text; of a long one, of its beginning."""
        files = self._files
        prefix = files.query_prefix if mode == "query" else files.passage_prefix
        encoded = self._tokenizer.encode_batch([prefix + text[: self._max_chars] for text in texts])
        tokens = [encoding.ids for encoding in encoded]
        # Texts of like length side by side: the rest of a batch is padding.
        order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
        rows = np.empty((len(tokens), 0), dtype=np.float32)
        for begin in range(0, len(order), self._batch_size):
            batch = order[begin : begin + self._batch_size]
            vectors = self._run([tokens[number] for number in batch])
            if not rows.shape[1]:
                rows = np.zeros((len(tokens), vectors.shape[1]), dtype=np.float32)
            rows[batch] = vectors
        return as_rows(rows, len(texts))

    def _run(self, tokens: Sequence[Sequence[int]]) -> Vectors:
        width = max(len(ids) for ids in tokens)
        ids = np.zeros((len(tokens), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, of_text in enumerate(tokens):
            ids[row, : len(of_text)] = of_text
            mask[row, : len(of_text)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {name: value for name, value in given.items() if name in self._inputs}
        output = np.asarray(self._session.run([self._output], feed)[0], dtype=np.float32)
        if output.ndim == 2:
            return output
        if self._files.pooling == "cls":
            return output[:, 0]
        weights = mask[:, :, None].astype(np.float32)
        return (output * weights).sum(axis=1) / weights.sum(axis=1)
