"""The twelve traps of systems like this one: where each is tested, and those that are here."""

import re
from pathlib import Path
from typing import Any

import pytest

from cortex.clock import RandomIds, SystemClock
from cortex.settings.models import Bm25Settings, ClickHouseSettings
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import migrate
from cortex.toolsets.conversations.queries import ConversationQueries
from cortex.toolsets.conversations.service import ConversationsService, Search
from ingesting import claude_line, service_on, settings_for, written

TESTS = Path(__file__).resolve().parents[1]
_UNIT = "unit/toolsets/conversations"
_GROW = "e2e/test_conversations_grow.py"

TRAPS: dict[str, list[str]] = {
    "1 repeated messages collapse": [
        f"{_UNIT}/test_codex.py::test_equal_records_of_one_moment_are_two",
        f"{_UNIT}/test_kimi_cli.py::test_equal_prompts_of_one_moment_are_two_readings",
        "store/test_traps.py::test_equal_records_without_ids_are_two_events",
        "store/test_search.py::test_two_equal_prompts_are_two_events_and_one_hit",
    ],
    "2 order of blocks is lost": [
        f"{_UNIT}/test_claude_code.py::test_blocks_keep_their_order_and_their_slots",
        "store/test_traps.py::test_blocks_of_one_record_are_opened_in_their_order",
    ],
    "3 tool inputs and titles cannot be found": [
        f"{_UNIT}/test_claude_code.py::test_inputs_of_tools_are_text_without_the_syntax_of_json",
        f"{_UNIT}/test_claude_code.py::test_titles_name_the_session",
        f"{_UNIT}/test_codex.py::test_inputs_of_tools_are_text_without_the_syntax_of_json",
        "store/test_traps.py::test_what_stands_in_inputs_titles_and_other_scripts_is_found",
    ],
    "4 a last line without newline is lost": [
        "store/test_ingest.py::test_a_last_line_without_newline_waits_for_it",
        f"{_GROW}::test_everything_that_is_appended_by_several_agents_is_found",
    ],
    "5 turns are inflated": [
        f"{_UNIT}/test_claude_code.py::test_only_a_persons_own_prompts_are_turns",
        f"{_UNIT}/test_claude_code.py::test_sidechains_inside_a_file_of_older_clients_are_subagents_too",
        f"{_UNIT}/test_codex.py::test_injected_context_is_no_message",
        f"{_UNIT}/test_codex.py::test_genuine_prompts_are_turns_exactly_once_in_every_version",
        f"{_UNIT}/test_kimi_cli.py::test_only_a_persons_own_prompts_are_turns",
    ],
    "6 tokens are counted twice": [
        f"{_UNIT}/test_claude_code.py::test_usage_of_a_response_is_counted_once_over_its_records",
        f"{_UNIT}/test_codex.py::test_usage_is_counted_once_with_cached_and_reasoning_tokens",
        "store/test_sessions.py::test_sessions_come_newest_first_with_title_turns_and_tokens",
    ],
    "7 words of other scripts, parts of names, snippets": [
        "unit/text/test_terms.py::test_chinese_japanese_and_korean_are_pairs_of_characters",
        "unit/text/test_terms.py::test_accents_are_folded_however_they_are_written",
        "unit/text/test_terms.py::test_parts_of_identifiers_and_paths_are_found",
        "unit/text/test_terms.py::test_snippet_is_cut_around_the_match",
        "store/test_traps.py::test_what_stands_in_inputs_titles_and_other_scripts_is_found",
    ],
    "8 open scans whole sessions": [
        "store/test_traps.py::test_open_reads_a_few_granules_of_a_long_session",
        "store/test_traps.py::test_nothing_is_read_with_final",
    ],
    "9 results have no tool name": [
        f"{_UNIT}/test_claude_code.py::test_a_result_carries_the_name_of_its_tool_and_the_outcome",
        f"{_UNIT}/test_codex.py::test_results_carry_the_name_of_their_tool_and_the_outcome",
    ],
    "10 postings of old text stay": [
        "store/test_ingest_documents.py::test_a_record_that_grew_replaces_what_it_said_before",
    ],
    "11 the engine logs without end": [
        "store/test_traps.py::test_no_log_grows_without_end",
    ],
    "12 nothing can be deleted": [
        "store/test_forget.py::test_nothing_of_a_forgotten_session_is_in_any_table",
        "store/test_forget.py::test_what_was_said_is_off_the_disk",
        "store/test_forget.py::test_forgotten_sessions_do_not_come_back",
    ],
}
TROUBLES: dict[str, list[str]] = {
    "one bad record stalls everything": [
        "store/test_ingest.py::test_each_bad_line_is_one_error_and_the_rest_is_read",
    ],
    "replays double rows": [
        "store/test_ingest.py::test_reading_everything_twice_changes_nothing",
        "store/test_ingest.py::test_lost_checkpoints_lose_and_double_nothing",
    ],
    "a message written twice is two hits": [
        f"{_UNIT}/test_codex.py::test_of_a_message_written_twice_the_event_is_the_mirror",
    ],
    "browsing by time without a query": [
        "store/test_sessions.py::test_sessions_come_newest_first_with_title_turns_and_tokens",
    ],
    "a corpus that is still read looks complete": [
        "store/test_search.py::test_a_corpus_that_is_still_read_says_so",
    ],
    "excluded folders": [
        "store/test_ingest.py::test_sessions_of_excluded_folders_are_not_read",
    ],
    "the query of a caller that left goes on": [
        "store/test_deadlines.py::",
    ],
    "secrets": [
        "store/test_ingest.py::test_secrets_are_in_no_table_and_counted_once",
        f"{_UNIT}/test_output.py::test_a_secret_in_a_hit_is_not_shown",
    ],
}
NAMED = [name for names in [*TRAPS.values(), *TROUBLES.values()] for name in names]


@pytest.mark.parametrize("name", NAMED)
def test_a_trap_has_its_test(name: str) -> None:
    file, _, test = name.partition("::")
    text = (TESTS / file).read_text()
    assert re.search(rf"^(async )?def {test or 'test_'}", text, re.MULTILINE)


class ListeningEngine(Engine):
    """Remembers the statements it was asked."""

    asked: list[tuple[str, Any]]

    async def query(self, sql: str, params: Any = None, **options: Any) -> list[dict[str, Any]]:
        self.asked.append((sql, params))
        return await super().query(sql, params, **options)


@pytest.fixture
async def session(engine: Engine, tmp_path: Path) -> Engine:
    """One session of 3,000 events; the last record has three blocks."""
    await migrate(engine)
    folder = tmp_path / "sessions"
    (folder / "claude-code").mkdir(parents=True)
    lines = [claude_line("long", n, f"number {n}") for n in range(3000)]
    blocks = [
        {"type": "thinking", "thinking": "first I think"},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "then I act"}},
        {"type": "text", "text": "last I speak"},
    ]
    last = claude_line("long", 3001)
    last["message"]["content"] = blocks
    (folder / "claude-code" / "long.jsonl").write_bytes(written([*lines, last]))
    await service_on(engine, settings_for(folder)).read(None, None)
    return engine


def service(engine: Engine) -> ConversationsService:
    queries = ConversationQueries(engine)
    return ConversationsService(
        queries, Bm25Settings(), SystemClock(), RandomIds(), preview_chars=120
    )


async def uid_of(engine: Engine, text: str) -> str:
    found = await engine.query(
        "SELECT event_uid FROM events WHERE text_content = {text:String}", {"text": text}
    )
    return str(found[0]["event_uid"])


@pytest.mark.anyio
async def test_open_reads_a_few_granules_of_a_long_session(session: Engine) -> None:
    """Looking the event up, as well as reading what stands around it."""
    uid = await uid_of(session, "number 1500")
    session.__class__ = ListeningEngine
    assert isinstance(session, ListeningEngine)
    session.asked = []
    assert len((await service(session).open(uid, 3, 3)).events) == 7
    ((window, params),) = session.asked
    (lookup,) = re.findall(r"\((SELECT .*? LIMIT 1)\)", window)
    for sql, most_granules in ((lookup, 4), (window, 3)):
        estimate = await session.query(f"EXPLAIN ESTIMATE {sql}", params)
        assert 0 < sum(int(row["rows"]) for row in estimate) <= most_granules * 32, sql


@pytest.mark.anyio
async def test_blocks_of_one_record_are_opened_in_their_order(session: Engine) -> None:
    window = await service(session).open(await uid_of(session, "then I act"), 1, 1)
    said = [event["text_content"] for event in window.events]
    assert said == ["first I think", "then I act", "last I speak"]


@pytest.mark.anyio
async def test_equal_records_without_ids_are_two_events(engine: Engine, tmp_path: Path) -> None:
    await migrate(engine)
    said = {"type": "message", "role": "user", "content": "continue"}
    line = {"timestamp": "2026-03-01T10:00:00Z", "type": "response_item", "payload": said}
    path = tmp_path / "rollout-x.jsonl"
    path.write_bytes(written([line, line]))
    reader = service_on(engine, settings_for(tmp_path))
    for _ in range(2):
        await reader.read([str(path)], "codex")
        rows = await engine.query("SELECT turn_seq FROM events ORDER BY doc_id")
        assert [row["turn_seq"] for row in rows] == [1, 2]


@pytest.mark.anyio
async def test_what_stands_in_inputs_titles_and_other_scripts_is_found(
    engine: Engine, tmp_path: Path
) -> None:
    await migrate(engine)
    folder = tmp_path / "claude-code"
    folder.mkdir()
    call = claude_line("a", 2)
    asked = {"command": "pytest -k overlapping_timers"}
    call["message"]["content"] = [{"type": "tool_use", "id": "t", "name": "Bash", "input": asked}]
    long = claude_line("a", 3, "begin " * 400 + "the gasket leaks" + " end" * 400)
    title = claude_line("a", 4) | {"type": "ai-title", "aiTitle": "Walrus migration"}
    others = [claude_line("a", 5, "日本語の検索"), claude_line("a", 6, "un café crème")]
    (folder / "a.jsonl").write_bytes(written([call, long, title, *others]))
    await service_on(engine, settings_for(tmp_path)).read(None, None)

    async def found(query: str, **more: Any) -> list[str]:
        wanted = Search(query=query, limit=5, min_score=0.0, min_should_match=1, **more)
        return [hit.snippet for hit in (await service(engine).search(wanted)).hits]

    assert await found("timers", include_tool_events=True) == ["pytest -k overlapping_timers"]
    assert await found("walrus") == ["Walrus migration"]
    assert await found("日本") == ["日本語の検索"]
    assert await found("CAFE creme") == ["un café crème"]
    (snippet,) = await found("gasket")
    assert "the gasket leaks" in snippet


def test_nothing_is_read_with_final() -> None:
    """It merges while it reads: every open and search would pay for it."""
    source = TESTS.parent / "src" / "cortex"
    files = [*(source / "toolsets" / "conversations").rglob("*.py"), *source.rglob("*.sql")]
    assert len(files) > 30
    used = re.compile(r"^(?!--).*\bFINAL\b", re.MULTILINE)
    assert [path.name for path in files if used.search(path.read_text())] == []


@pytest.mark.anyio
async def test_no_log_grows_without_end(tmp_path: Path) -> None:
    engine = await open_engine(ClickHouseSettings(url=f"chdb://{tmp_path / 'clickhouse'}"))
    await migrate(engine)
    # The engine makes the table of a log when it first writes to it.
    await engine.command("SYSTEM FLUSH LOGS")
    logs = await engine.query(
        "SELECT name FROM system.tables WHERE database = 'system' AND engine LIKE '%MergeTree'"
    )
    assert logs == []
    made = await engine.query(
        "SELECT name, create_table_query AS q FROM system.tables"
        " WHERE database = currentDatabase() AND name IN ('search_query_log', 'search_hit_log')"
    )
    assert len(made) == 2
    assert all("TTL" in row["q"] for row in made)
    await engine.close()
