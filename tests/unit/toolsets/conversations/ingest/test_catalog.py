from pathlib import Path

import pytest

from cortex.errors import InvalidParams, SettingsError
from cortex.settings.models import IngestSource
from cortex.toolsets.conversations.ingest.requested import requested
from cortex.toolsets.conversations.sources import catalog

READERS = {
    "~/.claude/projects/-loom/s/subagents/agent-1.jsonl": "ClaudeCodeReader",
    "~/.codex/sessions/2026/03/01/rollout-1.jsonl": "CodexReader",
    "~/.copilot/session-state/s/events.jsonl": "CopilotCliReader",
    "~/.copilot/session-state/s.jsonl": "CopilotCliReader",
    "~/.copilot/session-state/s/workspace.yaml": "CopilotWorkspaceReader",
    "~/.cursor/projects/p/agent-transcripts/s/s.jsonl": "CursorReader",
    "~/.gemini/tmp/p/chats/session-1.jsonl": "GeminiCliReader",
    "~/.gemini/tmp/p/chats/s/agent-1.jsonl": "GeminiCliReader",
    "~/.gemini/tmp/p/chats/session-1.json": "GeminiCliReader",
    "~/.kimi/sessions/w/s/wire.jsonl": "KimiCliReader",
    "~/.kimi/sessions/w/s/state.json": "KimiStateReader",
    "~/.local/share/opencode/opencode-dev.db": "OpencodeReader",
    "~/.qwen/projects/p/chats/s.jsonl": "QwenCodeReader",
    "~/.qwen/projects/p/subagents/s/agent-1.jsonl": "QwenCodeReader",
}


@pytest.mark.parametrize(("path", "reader"), READERS.items())
def test_every_agent_has_its_reader_by_default_and_in_a_copy(
    path: str, reader: str, tmp_path: Path
) -> None:
    """The globs of the reference, section 1.3; a copied folder is told by the same names."""
    copy = Path(path.replace("~", str(tmp_path)))
    copy.parent.mkdir(parents=True)
    copy.write_text("{}\n")
    (task,) = requested([str(tmp_path)], None, catalog.sources(None))
    assert type(task.source.reader(task.path)).__name__ == reader


@pytest.mark.parametrize("harness", catalog.HARNESSES)
def test_a_glob_of_the_settings_works_for_every_agent(harness: str) -> None:
    configured = [
        IngestSource(name="mine", harness=harness, glob="/srv/x/*"),
        IngestSource(name="off", harness=harness, glob="/srv/y/*", enabled=False),
    ]
    (source,) = catalog.sources(configured)
    assert source.reader("/srv/x/anything").harness == harness


def test_an_unknown_agent_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError, match="claude-code, codex"):
        catalog.source("x", "nobody", "/x")


def test_a_folder_with_a_harness_is_read_as_its_session_files(tmp_path: Path) -> None:
    for name in ("wire.jsonl", "context.jsonl", "state.json", "notes.txt"):
        (tmp_path / name).write_text("{}\n")
    tasks = requested([str(tmp_path)], "kimi-cli", [])
    assert [Path(task.path).name for task in tasks] == ["state.json", "wire.jsonl"]


def test_a_file_of_a_configured_source_is_read_as_that(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    known = [catalog.source("mine", "codex", f"{tmp_path}/*.jsonl")]
    (task,) = requested([str(path)], None, known)
    assert task.key == ("mine", str(path))


def test_a_file_of_any_name_is_read_when_the_agent_is_named(tmp_path: Path) -> None:
    path = tmp_path / "export.txt"
    path.write_text("{}\n")
    (task,) = requested([str(path)], "codex", [])
    assert task.source.name == "codex"


@pytest.mark.parametrize(
    ("name", "harness", "reason"),
    [("gone", None, "not there"), ("", None, "name the agent"), ("", "nobody", "unknown harness")],
)
def test_what_cannot_be_read_is_told(
    tmp_path: Path, name: str, harness: str | None, reason: str
) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InvalidParams, match=reason):
        requested([str(tmp_path / name)], harness, catalog.sources(None))


def test_the_format_of_a_source_chooses_its_reader() -> None:
    def reader_of(told: str) -> str:
        item = IngestSource(name="copies", harness="cursor", glob="/backup/*", format=told)
        (made,) = catalog.sources([item])
        return type(made.reader("/backup/state")).__name__

    assert reader_of("jsonl") == "CursorReader"
    assert reader_of("cursor_sqlite") == reader_of("sqlite") == "CursorStateReader"
    with pytest.raises(SettingsError, match="cursor writes no files of format 'yaml'"):
        reader_of("yaml")
