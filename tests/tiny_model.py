"""A sentence-embedding model small enough for a test: real ONNX, a real tokenizer, seven words.

A word's vector points along the axis of its number, so that a text's vector is known beforehand.
"""

import json
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

WORDS = ("[UNK]", "cookie", "jar", "session", "query", "passage", "socket")
_FLOAT, _INT64 = 1, 7


def write_tiny_model(folder: Path, *, dimensions: int = 384, prompts: bool = False) -> Path:
    """Write the model into a folder, laid out as sentence-transformers does."""
    folder.mkdir(parents=True, exist_ok=True)
    table = np.eye(len(WORDS), dimensions, dtype="<f4")
    (folder / "model.onnx").write_bytes(_model(table))
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    if prompts:
        said = {"prompts": {"query": "query ", "passage": "passage "}}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(said))
    return folder


def _model(table: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    """Return a graph that looks up the row of each token."""
    look_up = _text(1, "table") + _text(1, "input_ids") + _text(2, "rows") + _text(4, "Gather")
    dims = b"".join(_number(1, size) for size in table.shape)
    tensor = dims + _number(2, _FLOAT) + _text(8, "table") + _part(9, table.tobytes())
    graph = (
        _part(1, look_up)
        + _text(2, "tiny")
        + _part(5, tensor)
        + _part(11, _value("input_ids", _INT64, ("batch", "tokens")))
        + _part(11, _value("attention_mask", _INT64, ("batch", "tokens")))
        + _part(12, _value("rows", _FLOAT, ("batch", "tokens", table.shape[1])))
    )
    return _number(1, 8) + _part(7, graph) + _part(8, _number(2, 17))


def _value(name: str, kind: int, shape: tuple[str | int, ...]) -> bytes:
    sizes = [_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape]
    tensor = _number(1, kind) + _part(2, b"".join(_part(1, size) for size in sizes))
    return _text(1, name) + _part(2, _part(1, tensor))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _part(field, value.encode())


def _part(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
