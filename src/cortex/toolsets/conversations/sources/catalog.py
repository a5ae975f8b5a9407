"""The agents whose sessions are read: where they write, and who reads it."""

from collections.abc import Sequence
from dataclasses import dataclass

from cortex.errors import SettingsError
from cortex.settings.models import IngestSource
from cortex.toolsets.conversations.sources.claude_code import ClaudeCodeReader
from cortex.toolsets.conversations.sources.codex import CodexReader
from cortex.toolsets.conversations.sources.reader import LineReader


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one agent."""

    name: str
    harness: str
    glob: str
    reader: LineReader
    excluded: tuple[str, ...] = ()


_LINE_READERS: dict[str, LineReader] = {
    "claude-code": ClaudeCodeReader(),
    "codex": CodexReader(),
}
# Not sessions, though they lie among them and end in .jsonl.
_EXCLUDED = {"claude-code": ("**/subagents/workflows/**/journal.jsonl", "**/audit.jsonl")}
_BUILT_IN = (
    ("claude", "claude-code", "~/.claude/projects/**/*.jsonl"),
    ("codex", "codex", "~/.codex/sessions/**/*.jsonl"),
)


def line_reader(harness: str) -> LineReader:
    """Return who reads the lines of an agent."""
    try:
        return _LINE_READERS[harness]
    except KeyError:
        known = ", ".join(sorted(_LINE_READERS))
        raise SettingsError(f"unknown harness {harness!r}; known are {known}") from None


def sources(configured: Sequence[IngestSource] | None) -> list[Source]:
    """Return what is to be read: the built-in sources, or what the settings name instead."""
    if configured is None:
        return [source(name, harness, glob) for name, harness, glob in _BUILT_IN]
    return [source(item.name, item.harness, item.glob) for item in configured if item.enabled]


def source(name: str, harness: str, glob: str) -> Source:
    """Return one source by the name of its agent."""
    return Source(name, harness, glob, line_reader(harness), _EXCLUDED.get(harness, ()))
