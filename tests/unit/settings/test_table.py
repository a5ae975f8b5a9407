import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.settings.load import load_settings
from cortex.settings.table import SettingRow, describe

Rows = Callable[..., dict[str, SettingRow]]


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """Describe the settings that variables and the home's file give, by key."""

    def rows(text: str = "", /, **environ: str) -> dict[str, SettingRow]:
        (tmp_path / "cortex.toml").write_text(text)
        loaded = load_settings(home=tmp_path, config=None, environ=environ)
        return {row.key: row for row in describe(loaded)}

    return rows


def test_a_row_says_all_there_is_to_say_about_a_key(rows: Rows) -> None:
    assert rows(CORTEX_HTTP__PORT="4000")["http.port"] == SettingRow(
        key="http.port",
        value="4000",
        origin="env CORTEX_HTTP__PORT",
        default="3024",
        type="an integer from 0 to 65535",
        variable="CORTEX_HTTP__PORT",
        description="The port; 0 takes any free one.",
    )


def test_the_order_of_the_rows_does_not_depend_on_the_sources(rows: Rows) -> None:
    text = "[logs]\nbackups = 1\n[clickhouse]\ndatabase = 'x'\n"
    assert list(rows(text, CORTEX_BM25__B="1")) == list(rows())


def test_a_password_is_masked_when_set_and_empty_when_not(rows: Rows) -> None:
    assert rows()["clickhouse.password"].value == ""
    assert rows(CORTEX_CLICKHOUSE__PASSWORD="hunter2")["clickhouse.password"].value == "********"


def test_no_secret_gets_into_the_table(rows: Rows) -> None:
    shown = rows(
        CORTEX_CLICKHOUSE__PASSWORD="hunter2",
        CORTEX_CLICKHOUSE__URL="http://ann:hunter2@host:8123",
        OTEL_EXPORTER_OTLP_ENDPOINT="https://hunter2@collector:4318",
    )
    assert "hunter2" not in repr(shown)
    assert shown["clickhouse.url"].value == "http://********@host:8123"
    assert shown["telemetry.otlp_endpoint"].value == "https://********@collector:4318"


def test_what_depends_on_the_home_is_shown_with_it(rows: Rows, tmp_path: Path) -> None:
    shown = rows()
    assert shown["clickhouse.url"].value == f"chdb://{tmp_path}/clickhouse"
    assert shown["clickhouse.url"].default == "chdb://$CORTEX_HOME/clickhouse"
    assert shown["http.token_file"].value == f"{tmp_path}/http-token"
    assert shown["http.token_file"].default == "$CORTEX_HOME/http-token"


def test_values_are_text_or_json(rows: Rows) -> None:
    shown = rows(
        "[mcp]\nasync_log_writes = false\n[policy]\nfiles = ['/a.cedar']\n"
        "[[ingest.sources]]\nname = 'x'\nharness = 'codex'\nglob = '/x/ü.jsonl'\n"
    )
    assert shown["mcp.async_log_writes"].value == "false"
    assert shown["mcp.tool_names"].value == "auto"
    assert shown["policy.files"].value == '["/a.cedar"]'
    assert shown["clickhouse.cluster"].value == "no cluster"
    assert "ü" in shown["ingest.sources"].value
    assert json.loads(shown["ingest.sources"].value) == [
        {
            "name": "x",
            "harness": "codex",
            "enabled": True,
            "glob": "/x/ü.jsonl",
            "watch_root": None,
            "format": None,
        }
    ]


def test_sources_left_open_are_said_to_be_the_built_in_ones(rows: Rows) -> None:
    assert rows()["ingest.sources"].value == "the built-in sources"
    assert rows("[ingest]\nsources = []\n")["ingest.sources"].value == "[]"
