import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.errors import SettingsError
from cortex.settings.load import LoadedSettings, load_settings
from cortex.settings.models import Settings
from cortex.settings.sources import Origin

MORAINE = """\
[clickhouse]
url = "https://ch.example:8443"
database = "moraine"
username = "ann"
password = { env = "CH_PASSWORD" }
timeout_seconds = 5
request_compression = "gzip"
async_insert = true
wait_for_async_insert = false
allow_newer_server = true

[backends.team]
url = "https://team.example:8443"
password = { env = "NEVER_SET" }

[[routes]]
dir = "~/work/**"
backend = "team"

[identity]
author = "ann"

[redaction]
ruleset = "builtin"
extra_patterns = ["acme_[a-z]{8}"]
dangerously_skip_secret_redaction = false

[ingest]
exclude_project_dirs = ["~/private/**"]
batch_size = 100
max_batch_bytes = 65536
flush_interval_seconds = 1
state_dir = "~/.moraine/ingestor"
backfill_on_start = false
max_file_workers = 2
max_inflight_batches = 16
debounce_ms = 10
reconcile_interval_seconds = 60.0
heartbeat_interval_seconds = 5.0
ack_observation = false

[[ingest.sources]]
name = "kiro"
harness = "kiro-cli"
enabled = false
glob = "~/.kiro/sessions/cli/*.jsonl"
watch_root = "~/.kiro/sessions/cli"
format = "kiro_session"

[mcp]
max_results = 10
preview_chars = 200
default_context_before = 1
default_context_after = 2
default_include_tool_events = true
default_exclude_codex_mcp = false
prewarm_on_initialize = false
async_log_writes = false
protocol_version = "2024-11-05"
max_parallel_requests = 4
use_central_server = true
central_socket_path = "mcp.sock"
central_connect_timeout_ms = 250

[backend]
bind = "127.0.0.1"
auth_token = { env = "NEVER_SET" }
start_on_up = true

[bm25]
k1 = 1.5
b = 0.5
default_min_score = 1
default_min_should_match = 2
max_query_terms = 16

[monitor]
port = 8080

[runtime]
"""

Load = Callable[..., LoadedSettings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load settings from the text of the home's own file and from variables."""

    def load(
        text: str | None = None, /, config: Path | None = None, **environ: str
    ) -> LoadedSettings:
        if text is not None:
            (tmp_path / "cortex.toml").write_text(text)
        return load_settings(home=tmp_path, config=config, environ={"HOME": "/home/ann"} | environ)

    return load


def test_without_a_file_the_defaults_hold_and_the_store_is_embedded(
    load: Load, tmp_path: Path
) -> None:
    loaded = load()
    assert loaded.config_path is None
    assert loaded.home == tmp_path
    assert loaded.settings.clickhouse.url == f"chdb://{tmp_path}/clickhouse"
    assert loaded.settings.model_copy(update={"clickhouse": None}) == Settings().model_copy(
        update={"clickhouse": None}
    )
    assert {str(origin) for origin in loaded.origins.values()} == {"default"}
    assert loaded.ignored == ()


def test_an_empty_url_means_the_embedded_store(load: Load, tmp_path: Path) -> None:
    loaded = load('[clickhouse]\nurl = ""\n')
    assert loaded.settings.clickhouse.url == f"chdb://{tmp_path}/clickhouse"


def test_a_relative_home_still_gives_an_absolute_store() -> None:
    loaded = load_settings(home=Path("here"), config=None, environ={})
    assert loaded.settings.clickhouse.url == f"chdb://{Path.cwd()}/here/clickhouse"


def test_the_file_goes_before_the_default_and_the_environment_before_the_file(
    load: Load, tmp_path: Path
) -> None:
    file = "[http]\nport = 4000\nenabled = true\n"
    loaded = load(file, CORTEX_HTTP__PORT="5000")
    assert loaded.settings.http.port == 5000
    assert loaded.settings.http.enabled is True
    assert loaded.origins["http.port"] == Origin("env", "CORTEX_HTTP__PORT")
    assert loaded.origins["http.enabled"] == Origin("file", str(tmp_path / "cortex.toml"))
    assert loaded.origins["http.bind"] == Origin("default")
    assert loaded.config_path == tmp_path / "cortex.toml"


def test_every_key_has_an_origin(load: Load) -> None:
    leaves = {
        f"{section}.{name}"
        for section, values in load().settings.model_dump().items()
        for name in values
    }
    assert set(load(MORAINE, CH_PASSWORD="x").origins) == leaves


def test_config_goes_before_the_variable_and_the_variable_before_the_home(
    load: Load, tmp_path: Path
) -> None:
    for port in (1, 2, 3):
        (tmp_path / f"{port}.toml").write_text(f"[http]\nport = {port}\n")
    own, variable, named = "[http]\nport = 1\n", str(tmp_path / "2.toml"), tmp_path / "3.toml"
    assert load(own).settings.http.port == 1
    assert load(own, CORTEX_CONFIG=variable).settings.http.port == 2
    assert load(own, config=named, CORTEX_CONFIG=variable).settings.http.port == 3
    assert load(own, CORTEX_CONFIG="").settings.http.port == 1


def test_a_tilde_stands_for_the_home_of_the_given_environment(load: Load) -> None:
    loaded = load(
        '[policy]\nfiles = ["~/a.cedar"]\n[http]\ntoken_file = "~/token"\n'
        '[ingest]\nexclude_project_dirs = ["~/private/**", "**/tmp"]\n'
    )
    assert loaded.settings.policy.files == (Path("/home/ann/a.cedar"),)
    assert loaded.settings.http.token_file == Path("/home/ann/token")
    assert loaded.settings.ingest.exclude_project_dirs == ("/home/ann/private/**", "**/tmp")


def test_variables_are_text_for_texts_and_json_for_the_rest(load: Load) -> None:
    settings = load(
        CORTEX_CLICKHOUSE__PASSWORD="12345",
        CORTEX_CLICKHOUSE__TIMEOUT_SECONDS="2",
        CORTEX_MCP__ASYNC_LOG_WRITES="false",
        CORTEX_MCP__TOOL_NAMES="dots",
        CORTEX_INGEST__EXCLUDE_PROJECT_DIRS='["/a", "/b"]',
        CORTEX_INGEST__SOURCES='[{"name": "x", "harness": "codex", "glob": "~/x/*.jsonl"}]',
        CORTEX_HTTP__TOKEN_FILE="~/token",
    ).settings
    assert settings.clickhouse.password.get_secret_value() == "12345"
    assert settings.clickhouse.timeout_seconds == 2.0
    assert settings.mcp.async_log_writes is False
    assert settings.mcp.tool_names == "dots"
    assert settings.ingest.exclude_project_dirs == ("/a", "/b")
    assert settings.ingest.sources is not None
    assert settings.ingest.sources[0].glob == "/home/ann/x/*.jsonl"
    assert settings.http.token_file == Path("/home/ann/token")


def test_variables_of_sessions_and_of_others_are_left_alone(load: Load) -> None:
    load(CORTEX_HOME="/x", CORTEX_CHUNKS_DIR="/y", CORTEX_MCP_AUTO_COMMIT="1", OTHER__KEY="z")


@pytest.mark.parametrize(
    ("value", "allowed"),
    [("true", True), ("True", False), ("1", False), ("yes", False), ("", False)],
)
def test_mutations_are_allowed_by_exactly_true(load: Load, value: str, allowed: bool) -> None:
    loaded = load("[policy]\nallow_mutations = true\n", CORTEX_MCP_ALLOW_MUTATIONS=value)
    assert loaded.settings.policy.allow_mutations is allowed
    assert str(loaded.origins["policy.allow_mutations"]) == "env CORTEX_MCP_ALLOW_MUTATIONS"


def test_the_standard_otlp_variable_is_heard_unless_it_is_empty(load: Load) -> None:
    standard = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    loaded = load(**standard)
    assert loaded.settings.telemetry.otlp_endpoint == "http://collector:4318"
    assert str(loaded.origins["telemetry.otlp_endpoint"]) == "env OTEL_EXPORTER_OTLP_ENDPOINT"
    ours = load(**standard, CORTEX_TELEMETRY__OTLP_ENDPOINT="http://other:4318")
    assert ours.settings.telemetry.otlp_endpoint == "http://other:4318"
    assert load(OTEL_EXPORTER_OTLP_ENDPOINT="").settings.telemetry.otlp_endpoint is None


def test_a_text_of_the_file_may_come_from_a_variable(load: Load) -> None:
    loaded = load(
        '[clickhouse]\npassword = { env = "CH_PASSWORD" }\n'
        '[ingest]\nexclude_project_dirs = [{ env = "SECRET_PROJECT" }]\n',
        CH_PASSWORD="hunter2",
        SECRET_PROJECT="/srv/x",
    )
    assert loaded.settings.clickhouse.password.get_secret_value() == "hunter2"
    assert str(loaded.origins["clickhouse.password"]) == "env CH_PASSWORD"
    assert loaded.settings.ingest.exclude_project_dirs == ("/srv/x",)


def test_an_empty_list_of_sources_is_kept_empty(load: Load) -> None:
    assert load("[ingest]\nsources = []\n").settings.ingest.sources == ()


def test_a_moraine_file_is_accepted_and_what_has_no_use_here_is_listed(load: Load) -> None:
    loaded = load(MORAINE, CH_PASSWORD="hunter2")
    assert loaded.settings.clickhouse.database == "moraine"
    assert loaded.settings.clickhouse.timeout_seconds == 5.0
    assert loaded.settings.mcp.max_results == 10
    assert loaded.settings.bm25.max_query_terms == 16
    assert loaded.settings.ingest.sources is not None
    assert loaded.settings.ingest.sources[0].watch_root == "/home/ann/.kiro/sessions/cli"
    assert loaded.ignored == (
        "clickhouse.allow_newer_server",
        "backends.team",
        "routes",
        "identity.author",
        "ingest.state_dir",
        "ingest.max_inflight_batches",
        "ingest.heartbeat_interval_seconds",
        "ingest.ack_observation",
        "mcp.prewarm_on_initialize",
        "mcp.protocol_version",
        "mcp.max_parallel_requests",
        "mcp.use_central_server",
        "mcp.central_socket_path",
        "mcp.central_connect_timeout_ms",
        "backend.bind",
        "backend.auth_token",
        "backend.start_on_up",
        "monitor.port",
    )


def test_a_named_file_that_is_absent_is_refused(load: Load, tmp_path: Path) -> None:
    absent = tmp_path / "absent.toml"
    with pytest.raises(SettingsError, match="no such file; expected --config to name"):
        load(config=absent)
    with pytest.raises(SettingsError, match=r"no such file; expected \$CORTEX_CONFIG to name"):
        load(CORTEX_CONFIG=str(absent))


def test_a_folder_is_no_file(load: Load, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"^{tmp_path}: not readable"):
        load(config=tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused(load: Load, tmp_path: Path) -> None:
    (tmp_path / "cortex.toml").touch(mode=0o000)
    with pytest.raises(SettingsError, match=r"cortex\.toml: not readable \(Permission denied\)"):
        load()


def test_a_tilde_without_a_home_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^~/c\.toml: expected a path without ~"):
        load_settings(home=tmp_path, config=None, environ={"CORTEX_CONFIG": "~/c.toml"})
    (tmp_path / "cortex.toml").write_text('[http]\ntoken_file = "~/token"\n')
    with pytest.raises(SettingsError, match=r'is "~/token"; expected a path without ~'):
        load_settings(home=tmp_path, config=None, environ={})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[http]\nport = \n", r"not valid TOML: .*line 2"),
        (b"[http]\n[http]\n", r"not valid TOML: .*line 2"),
        (b"[http]\nport = " + b"1" * 5000, r"not valid TOML"),
        (b"[http]\nx = " + b"[" * 50_000, r"nested too deeply|not valid TOML"),
        (b"\xff\xfe", r"not UTF-8 at byte 0"),
    ],
)
def test_a_file_that_is_not_toml_is_refused_with_its_name_and_line(
    load: Load, tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=f"^{path}: {reason}") as caught:
        load(config=path)
    assert "\n" not in str(caught.value)
