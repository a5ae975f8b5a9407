"""Session files of a made-up developer: seeded, of realistic shape, as many events as asked for.

Words follow Zipf's law, each session has its own subject, and most of the bytes are what tools
were given and returned, as in real sessions. Two thirds are written as Claude Code does, the rest
as Codex does.
"""

import json
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY = 60_000
_SUBJECT_WORDS = 40
_SESSION_EVENTS = 120
_BEGAN = datetime(2025, 1, 1, tzinfo=UTC)
_SYLLABLES = (
    "ba ce di fo gu ha ki lo mu ne pa qui ro sa te vo wi xa ze tra pre con ser net log cor tex"
    " str in er al on ver tion ment able ish ly per mut hand"
).split()
# What an event is, how often, and how many words it has (median).
_KINDS = (
    ("prompt", 0.05, 25),
    ("answer", 0.18, 45),
    ("reasoning", 0.12, 50),
    ("call", 0.325, 14),
    ("result", 0.325, 70),
)


@dataclass(frozen=True)
class Corpus:
    """What was written."""

    files: int
    events: int
    size_bytes: int
    # What people and agents said, as (session, text): what a rival index is filled with.
    said: list[tuple[str, str]] = field(repr=False)
    words: list[str] = field(repr=False)  # the vocabulary, most frequent first


def write_corpus(home: Path, events: int, seed: int = 1) -> Corpus:
    """Write session files below a home directory until there are this many events."""
    maker = _Maker(seed)
    said: list[tuple[str, str]] = []
    files = written = size_bytes = 0
    while written < events:
        count = min(maker.session_length(), events - written)
        session = maker.session(files, count)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in session.lines)
        path = home / session.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        said += [(session.session_id, each) for each in session.said]
        files += 1
        written += count
        size_bytes += len(text)
    return Corpus(files, written, size_bytes, said, maker.words)


@dataclass
class _Session:
    session_id: str
    path: str
    lines: list[dict[str, Any]]
    said: list[str]


class _Maker:
    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.words = list(self._vocabulary())
        weights = 1.0 / np.arange(3, VOCABULARY + 3)
        self._cumulated = np.cumsum(weights / weights.sum())
        self._at = _BEGAN

    def _vocabulary(self) -> Iterator[str]:
        seen: set[str] = set()
        while len(seen) < VOCABULARY:
            size = 1 + int(self._random.integers(1, 4)) + (len(seen) > VOCABULARY // 10)
            parts = self._random.choice(_SYLLABLES, size=size)
            word = "".join(parts)
            shape = self._random.random()
            if shape > 0.95:
                word = "_".join(parts)
            elif shape > 0.9:
                word = parts[0] + "".join(part.title() for part in parts[1:])
            elif shape > 0.87:
                word = "/".join(parts) + ".py"
            if word not in seen:
                seen.add(word)
                yield word

    def session_length(self) -> int:
        return max(4, int(self._random.lognormal(math.log(_SESSION_EVENTS), 0.8)))

    def session(self, number: int, count: int) -> _Session:
        subject = self._random.integers(200, VOCABULARY, size=_SUBJECT_WORDS)
        names = [name for name, _, _ in _KINDS]
        kinds = self._random.choice(names, size=count, p=[share for _, share, _ in _KINDS])
        kinds[0] = "prompt"
        session_id = str(_uuid(self._random))
        project = f"/home/dev/{self.words[int(subject[0]) % 40]}"
        is_claude = number % 3 != 2
        lines: list[dict[str, Any]] = []
        said: list[str] = []
        self._at += timedelta(seconds=float(self._random.exponential(600)))
        moment = self._at
        call_id = ""
        if not is_claude:
            meta = {"id": session_id, "cwd": project, "originator": "codex_cli_rs"}
            lines.append(_codex("session_meta", meta, moment))
        texts = self._texts(kinds, subject)
        for kind, text in zip(kinds, texts, strict=True):
            moment += timedelta(seconds=float(self._random.exponential(8)))
            if kind == "call" or not call_id:
                call_id = f"call_{_uuid(self._random).hex[:24]}"
            if kind in ("prompt", "answer", "reasoning"):
                said.append(text)
            make = _claude_line if is_claude else _codex_line
            line = make(str(kind), text, call_id, moment)
            if is_claude:
                line |= {"sessionId": session_id, "cwd": project, "version": "2.1.0"}
                line["uuid"] = str(_uuid(self._random))
            lines.append(line)
        day = self._at.strftime("%Y/%m/%d")
        path = (
            f".claude/projects/{project.replace('/', '-')}/{session_id}.jsonl"
            if is_claude
            else f".codex/sessions/{day}/rollout-{self._at:%Y-%m-%dT%H-%M-%S}-{session_id}.jsonl"
        )
        return _Session(session_id, path, lines, said)

    def _texts(self, kinds: Any, subject: Any) -> Iterator[str]:
        medians = {name: median for name, _, median in _KINDS}
        sizes = [max(2, int(self._random.lognormal(math.log(medians[k]), 0.7))) for k in kinds]
        total = sum(sizes)
        ranks = np.searchsorted(self._cumulated, self._random.random(total))
        ranks = np.where(
            self._random.random(total) < 0.15, self._random.choice(subject, size=total), ranks
        )
        words = [self.words[rank] for rank in np.minimum(ranks, VOCABULARY - 1)]
        start = 0
        for size in sizes:
            yield " ".join(words[start : start + size])
            start += size


def _claude_line(kind: str, text: str, call_id: str, at: datetime) -> dict[str, Any]:
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    role = "user" if kind in ("prompt", "result") else "assistant"
    block: dict[str, Any] = {
        "prompt": {"type": "text", "text": text},
        "answer": {"type": "text", "text": text},
        "reasoning": {"type": "thinking", "thinking": text, "signature": ""},
        "call": {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": text}},
        "result": {"type": "tool_result", "tool_use_id": call_id, "content": text},
    }[kind]
    message: dict[str, Any] = {"role": role, "content": [block]}
    if role == "assistant":
        message |= {"model": "claude-model", "id": f"msg_{call_id[5:]}{at:%f}"}
        message["usage"] = {"input_tokens": len(text) // 4, "output_tokens": len(text) // 8}
    return {"type": role, "timestamp": stamp, "message": message, "parentUuid": None}


def _codex_line(kind: str, text: str, call_id: str, at: datetime) -> dict[str, Any]:
    item: dict[str, Any] = {
        "prompt": _codex_message("user", "input_text", text),
        "answer": _codex_message("assistant", "output_text", text),
        "reasoning": {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]},
        "call": {
            "type": "function_call",
            "name": "shell",
            "arguments": json.dumps({"command": ["bash", "-lc", text]}),
            "call_id": call_id,
        },
        "result": {"type": "function_call_output", "call_id": call_id, "output": text},
    }[kind]
    return _codex("response_item", item, at)


def _codex_message(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _codex(kind: str, payload: dict[str, Any], at: datetime) -> dict[str, Any]:
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"timestamp": stamp, "type": kind, "payload": payload}


def _uuid(random: np.random.Generator) -> uuid.UUID:
    return uuid.UUID(bytes=random.bytes(16), version=4)
