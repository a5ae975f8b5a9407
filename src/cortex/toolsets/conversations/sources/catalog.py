"""The agents whose sessions are read: where they write, and who reads it."""

import fnmatch
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cortex.errors import SettingsError
from cortex.settings.models import IngestSource
from cortex.toolsets.conversations.sources.claude_code import ClaudeCodeReader
from cortex.toolsets.conversations.sources.codex import CodexReader
from cortex.toolsets.conversations.sources.copilot_cli import (
    CopilotCliReader,
    CopilotWorkspaceReader,
)
from cortex.toolsets.conversations.sources.cursor import CursorReader
from cortex.toolsets.conversations.sources.cursor_state import CursorStateReader
from cortex.toolsets.conversations.sources.gemini_cli import GeminiCliReader
from cortex.toolsets.conversations.sources.kimi_cli import KimiCliReader, KimiStateReader
from cortex.toolsets.conversations.sources.opencode import OpencodeReader
from cortex.toolsets.conversations.sources.qwen_code import QwenCodeReader
from cortex.toolsets.conversations.sources.reader import (
    DatabaseReader,
    DocumentReader,
    Format,
    LineReader,
)

Reader = LineReader | DocumentReader | DatabaseReader

# How the files of an agent are written, what they are called, and who reads them; the first reads
# what matches none.
_READERS: dict[str, tuple[tuple[Format, str, Reader], ...]] = {
    "claude-code": (("jsonl", "*.jsonl", ClaudeCodeReader()),),
    "codex": (("jsonl", "*.jsonl", CodexReader()),),
    "copilot-cli": (
        ("jsonl", "*.jsonl", CopilotCliReader()),
        ("yaml", "workspace.yaml", CopilotWorkspaceReader()),
    ),
    "cursor": (
        ("jsonl", "*.jsonl", CursorReader()),
        ("sqlite", "*.vscdb", CursorStateReader()),
    ),
    "gemini-cli": (
        ("jsonl", "*.jsonl", GeminiCliReader()),
        ("json", "session-*.json", GeminiCliReader()),
    ),
    "kimi-cli": (
        ("jsonl", "wire.jsonl", KimiCliReader()),
        ("json", "state.json", KimiStateReader()),
    ),
    "opencode": (("sqlite", "*.db", OpencodeReader()), ("json", "*.json", OpencodeReader())),
    "qwen-code": (("jsonl", "*.jsonl", QwenCodeReader()),),
}
# As configuration files of Moraine spell them.
_OTHER_NAMES: dict[str, Format] = {
    "session_json": "json",
    "opencode_sqlite": "sqlite",
    "cursor_sqlite": "sqlite",
}
HARNESSES = tuple(sorted(_READERS))
# Not sessions, though they lie among them and end in .jsonl.
_EXCLUDED = {"claude-code": ("**/subagents/workflows/**/journal.jsonl", "**/audit.jsonl")}

_CURSOR_HOME = {
    "darwin": "~/Library/Application Support/Cursor/User",
    "win32": "~/AppData/Roaming/Cursor/User",
}.get(sys.platform, "~/.config/Cursor/User")
_COWORK = "~/Library/Application Support/Claude/local-agent-mode-sessions"
_BUILT_IN = (
    ("claude", "claude-code", "~/.claude/projects/**/*.jsonl"),
    ("claude-cowork", "claude-code", f"{_COWORK}/**/.claude/projects/**/*.jsonl"),
    ("codex", "codex", "~/.codex/sessions/**/*.jsonl"),
    ("copilot-cli", "copilot-cli", "~/.copilot/session-state/*/events.jsonl"),
    ("copilot-cli-files", "copilot-cli", "~/.copilot/session-state/*.jsonl"),
    ("copilot-cli-names", "copilot-cli", "~/.copilot/session-state/*/workspace.yaml"),
    ("cursor", "cursor", "~/.cursor/projects/*/agent-transcripts/**/*.jsonl"),
    ("cursor-sqlite", "cursor", f"{_CURSOR_HOME}/**/state.vscdb"),
    ("gemini-cli", "gemini-cli", "~/.gemini/tmp/*/chats/**/*.jsonl"),
    ("gemini-cli-json", "gemini-cli", "~/.gemini/tmp/*/chats/session-*.json"),
    ("kimi-cli", "kimi-cli", "~/.kimi/sessions/**/wire.jsonl"),
    ("kimi-cli-names", "kimi-cli", "~/.kimi/sessions/*/*/state.json"),
    ("opencode", "opencode", "~/.local/share/opencode/opencode*.db"),
    ("qwen-code", "qwen-code", "~/.qwen/projects/*/chats/*.jsonl"),
    ("qwen-code-agents", "qwen-code", "~/.qwen/projects/*/subagents/*/agent-*.jsonl"),
)
_MAC_ONLY = frozenset({"claude-cowork"})


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one agent."""

    name: str
    harness: str
    glob: str
    watch_root: str = ""  # empty: the fixed beginning of the glob
    excluded: tuple[str, ...] = ()
    format: Format | None = None  # told by the name of each file unless somebody says it

    def reader(self, path: str) -> Reader:
        """Return who reads a file, told by the format of the source or the name of the file."""
        readers = [each for each in _READERS[self.harness] if self.format in (None, each[0])]
        name = path.rpartition("/")[2]
        found = (reader for _, pattern, reader in readers if fnmatch.fnmatchcase(name, pattern))
        return next(found, readers[0][2])


def sources(configured: Sequence[IngestSource] | None) -> list[Source]:
    """Return what is to be read: the built-in sources, or what the settings name instead."""
    if configured is None:
        return [
            source(name, harness, glob)
            for name, harness, glob in _BUILT_IN
            if sys.platform == "darwin" or name not in _MAC_ONLY
        ]
    return [
        source(item.name, item.harness, item.glob, item.watch_root or "", item.format)
        for item in configured
        if item.enabled
    ]


def source(
    name: str, harness: str, glob: str, watch_root: str = "", format_name: str | None = None
) -> Source:
    """Return one source by the name of its agent.

    Raises:
        SettingsError: there is no such agent, or it writes nothing of this format.
    """
    if harness not in _READERS:
        raise SettingsError(f"unknown harness {harness!r}; known are {', '.join(HARNESSES)}")
    formats: list[Format] = [told for told, _, _ in _READERS[harness]]
    wanted = _OTHER_NAMES.get(format_name or "", format_name)
    chosen: Format | None = next((told for told in formats if told == wanted), None)
    if format_name and chosen is None:
        raise SettingsError(
            f"source {name!r}: {harness} writes no files of format {format_name!r}",
            hint=f"set format to {' or '.join(formats)}, or leave it out",
        )
    return Source(name, harness, glob, watch_root, _EXCLUDED.get(harness, ()), chosen)


def file_patterns(harness: str) -> tuple[str, ...]:
    """Return what the session files of an agent are called."""
    return tuple(pattern for _, pattern, _ in _READERS[harness])
