"""What may be set, and to what: one frozen `Settings`, a slice for each part of Cortex.

Nothing is read here: `load.py` alone reads the configuration file and the environment.
"""

import ipaddress
from collections import Counter
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from cortex.settings.types import (
    AbsoluteGlob,
    AbsolutePath,
    ClusterName,
    Glob,
    HttpUrl,
    Identifier,
    Name,
    Regex,
    StoreUrl,
    Unset,
)


class _Slice(BaseModel):
    # strict: TOML has types, and "3024" for a port is a mistake worth a line.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class ClickHouseSettings(_Slice):
    url: Annotated[
        StoreUrl,
        Unset("chdb://$CORTEX_HOME/clickhouse"),
        Field(
            description="The store: `chdb:///path` for the embedded engine (the path as it is, "
            "without escapes), `http://host:port` or `https://host:port` for a server."
        ),
    ] = ""
    database: Annotated[
        Identifier, Field(description="The database that holds the tables of Cortex.")
    ] = "cortex"
    username: Annotated[Name, Field(description="The user on a server.")] = "default"
    password: Annotated[SecretStr, Field(description="That user's password.")] = SecretStr("")
    timeout_seconds: Annotated[
        float, Field(gt=0, le=3600, description="How long to wait for the engine's answer.")
    ] = 30.0
    cluster: Annotated[
        ClusterName | None,
        Unset("no cluster"),
        Field(description="The cluster to make the tables on, replicated and distributed."),
    ] = None
    request_compression: Annotated[
        Literal["none", "gzip", "lz4", "zstd"],
        Field(description="How what is sent to a server is compressed."),
    ] = "none"
    async_insert: Annotated[
        bool, Field(description="Let a server gather small inserts into larger parts.")
    ] = True
    wait_for_async_insert: Annotated[
        bool, Field(description="Count an insert as done only when its part is written.")
    ] = True


class McpSettings(_Slice):
    max_results: Annotated[
        int, Field(ge=1, le=1000, description="Most hits of one search, whatever is asked for.")
    ] = 25
    preview_chars: Annotated[
        int, Field(ge=16, le=100_000, description="Length of the text shown with a hit.")
    ] = 320
    default_context_before: Annotated[
        int, Field(ge=0, le=1000, description="Events shown before the one that is opened.")
    ] = 3
    default_context_after: Annotated[
        int, Field(ge=0, le=1000, description="Events shown after the one that is opened.")
    ] = 3
    default_include_tool_events: Annotated[
        bool, Field(description="Search tool calls and their output too.")
    ] = False
    default_exclude_codex_mcp: Annotated[
        bool, Field(description="Leave out the calls of our own tools, which echo old searches.")
    ] = True
    async_log_writes: Annotated[
        bool, Field(description="Answer a search before the record of it is written.")
    ] = True
    tool_names: Annotated[
        Literal["auto", "dots", "underscores"],
        Field(
            description="How dotted tool names are published; `auto` writes underscores for "
            "clients known to refuse dots. A call may use either."
        ),
    ] = "auto"


class Bm25Settings(_Slice):
    ranking: Annotated[
        Literal["full", "plain"],
        Field(
            description="`plain` ranks by the formula alone; `full` adds the steps of "
            "docs/explain/ranking.md."
        ),
    ] = "full"
    k1: Annotated[float, Field(ge=0, le=10, description="How much a repeated word still adds.")] = (
        1.2
    )
    b: Annotated[
        float, Field(ge=0, le=1, description="How much its length counts against a text.")
    ] = 0.75
    default_min_score: Annotated[
        float, Field(ge=0, le=1_000_000, description="Hits with a lower score are left out.")
    ] = 0.0
    default_min_should_match: Annotated[
        int, Field(ge=1, le=256, description="How many words of the query a hit must contain.")
    ] = 1
    max_query_terms: Annotated[
        int, Field(ge=1, le=256, description="Words of a query that are used; the rest is cut.")
    ] = 32


class IngestSource(_Slice):
    name: Annotated[Name, Field(description="What the source is called; no two are the same.")]
    harness: Annotated[Name, Field(description="The agent that wrote the files, such as `codex`.")]
    enabled: Annotated[bool, Field(description="Whether the source is read.")] = True
    glob: Annotated[
        AbsoluteGlob, Field(description="Which files; `**` stands for any number of folders.")
    ]
    watch_root: Annotated[
        AbsoluteGlob | None,
        Unset("the fixed beginning of `glob`"),
        Field(description="The folder to watch for changes."),
    ] = None
    format: Annotated[
        Name | None,
        Unset("told by `harness` and `glob`"),
        Field(description="How the files are written, such as `jsonl` or `session_json`."),
    ] = None


class IngestSettings(_Slice):
    exclude_project_dirs: Annotated[
        tuple[Glob, ...],
        Field(
            strict=False,
            description="Sessions that ran in these folders are not read; `/**` at the end takes "
            "in the folder and all below it.",
        ),
    ] = ()
    batch_size: Annotated[
        int, Field(ge=1, le=1_000_000, description="Most events written at once.")
    ] = 8000
    max_batch_bytes: Annotated[
        int, Field(ge=1024, le=2**30, description="Most bytes written at once.")
    ] = 16_777_216
    flush_interval_seconds: Annotated[
        float, Field(gt=0, le=600, description="Accepted, unused: an event waits for no batch.")
    ] = 0.5
    backfill_on_start: Annotated[
        bool, Field(description="Read what was written while the daemon was not running.")
    ] = True
    max_file_workers: Annotated[
        int, Field(ge=1, le=256, description="Files read at the same time.")
    ] = 8
    debounce_ms: Annotated[
        int, Field(ge=0, le=60_000, description="Changes of a file this close count as one.")
    ] = 50
    reconcile_interval_seconds: Annotated[
        float, Field(gt=0, le=86_400, description="How often to look for changes nobody told of.")
    ] = 30.0
    sources: Annotated[
        tuple[IngestSource, ...] | None,
        Unset("the built-in sources"),
        Field(strict=False, description="Where sessions are read from; an empty list reads none."),
    ] = None

    @field_validator("sources")
    @classmethod
    def _names_differ(
        cls, sources: tuple[IngestSource, ...] | None
    ) -> tuple[IngestSource, ...] | None:
        names = Counter(source.name for source in sources or ())
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"a name of its own for each source, and {twice[0]!r} is used twice")
        return sources


class RedactionSettings(_Slice):
    ruleset: Annotated[
        Literal["builtin"], Field(description="The patterns of secrets that come with Cortex.")
    ] = "builtin"
    extra_patterns: Annotated[
        tuple[Regex, ...],
        Field(strict=False, description="Regular expressions of further secrets."),
    ] = ()
    dangerously_skip_secret_redaction: Annotated[
        bool, Field(description="Store sessions with the secrets that are in them.")
    ] = False


class EmbeddingSettings(_Slice):
    provider: Annotated[
        Literal["local", "http", "none"],
        Field(description="Who makes vectors; `none` searches code by words alone."),
    ] = "local"
    endpoint: Annotated[
        HttpUrl, Field(description="With `http`: where texts are sent, such as `cortex-embed`.")
    ] = "http://127.0.0.1:8121/embed"
    api: Annotated[
        Literal["cortex", "openai"],
        Field(description="With `http`: what the service speaks, `/embed` or `/v1/embeddings`."),
    ] = "cortex"
    model: Annotated[
        Name | None,
        Unset("what the service says"),
        Field(description="With `http`: the model's name; `openai` needs one."),
    ] = None
    api_key: Annotated[SecretStr, Field(description="With `http`: the bearer token.")] = SecretStr(
        ""
    )
    model_dir: Annotated[
        AbsolutePath | None,
        Unset("all-MiniLM-L6-v2"),
        Field(description="With `local`: a folder with `model.onnx` and `tokenizer.json`."),
    ] = None
    batch_size: Annotated[int, Field(ge=1, le=1024, description="Texts embedded at once.")] = 16
    max_tokens: Annotated[
        int, Field(ge=16, le=8192, description="With `local`: where a text is cut.")
    ] = 128
    timeout_seconds: Annotated[
        float, Field(gt=0, le=600, description="How long one batch may take.")
    ] = 30.0
    retries: Annotated[
        int, Field(ge=0, le=10, description="With `http`: how often a batch is tried again.")
    ] = 2
    cache_entries: Annotated[
        int,
        Field(ge=0, le=100_000_000, description="Vectors kept for all projects, 0.8 KB each."),
    ] = 200_000
    allow_words_only: Annotated[
        bool,
        Field(
            description="Answer by words where the model is away or another one than the chunks' "
            "was, instead of with an error."
        ),
    ] = False


class MemorySettings(_Slice):
    review_after_days: Annotated[
        float,
        Field(
            gt=0,
            le=3650,
            description="What an agent noted and nobody found helpful for so long is quarantined.",
        ),
    ] = 30.0
    decay_interval_hours: Annotated[
        float, Field(gt=0, le=8760, description="How often every memory is looked at.")
    ] = 24.0


class HttpSettings(_Slice):
    enabled: Annotated[bool, Field(description="Serve `/mcp` over HTTP.")] = False
    port: Annotated[int, Field(ge=0, le=65_535, description="The port; 0 takes any free one.")] = (
        3024
    )
    token_file: Annotated[
        AbsolutePath | None,
        Unset("$CORTEX_HOME/http-token"),
        Field(description="The file with the bearer token; Cortex makes the default one itself."),
    ] = None
    # After token_file: a validator sees the fields that stand before its own.
    bind: Annotated[
        Name,
        Field(
            description="The address to listen on. One that other machines can reach is accepted "
            "only where `token_file` is set as well."
        ),
    ] = "127.0.0.1"

    @field_validator("bind")
    @classmethod
    def _strangers_are_let_in_twice(cls, bind: str, info: ValidationInfo) -> str:
        try:
            is_loopback = bind == "localhost" or ipaddress.ip_address(bind).is_loopback
        except ValueError as error:
            raise ValueError("an IP address or localhost") from error
        if not is_loopback and info.data.get("token_file") is None:
            raise ValueError("a loopback address such as 127.0.0.1, or http.token_file set as well")
        return bind


class LimitsSettings(_Slice):
    calls: Annotated[
        int, Field(ge=1, le=1_000_000, description="Calls of one tool by one caller in a window.")
    ] = 50
    window_seconds: Annotated[
        float, Field(gt=0, le=86_400, description="The length of the sliding window.")
    ] = 10.0
    max_request_bytes: Annotated[
        int, Field(ge=1024, le=2**30, description="Most bytes in the arguments of one call.")
    ] = 1_048_576
    max_result_bytes: Annotated[
        int, Field(ge=1024, le=2**30, description="Most bytes in the result of one call.")
    ] = 8_388_608
    max_sessions: Annotated[
        int, Field(ge=1, le=100_000, description="Most client sessions open at once.")
    ] = 512
    call_timeout_seconds: Annotated[
        float, Field(gt=0, le=3600, description="A call that takes longer is stopped.")
    ] = 30.0


class PolicySettings(_Slice):
    files: Annotated[
        tuple[AbsolutePath, ...],
        Field(strict=False, description="Cedar policies, beside those that come with Cortex."),
    ] = ()
    allow_mutations: Annotated[
        bool,
        Field(
            description="Let every session change things, not only read them. One session is "
            "let alone by `CORTEX_MCP_ALLOW_MUTATIONS` in the environment of its `cortex mcp`, "
            "which counts only where it is exactly `true`."
        ),
    ] = False


class TelemetrySettings(_Slice):
    otlp_endpoint: Annotated[
        HttpUrl | None,
        Unset("nowhere"),
        Field(description="Where traces are sent, by OTLP over HTTP."),
    ] = None
    service_name: Annotated[Name, Field(description="What traces call this daemon.")] = "cortex"


class LogSettings(_Slice):
    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="The least important kind of message that is kept."),
    ] = "info"
    max_bytes: Annotated[
        int, Field(ge=10_000, le=2**30, description="Size at which a log file is put aside.")
    ] = 5_000_000
    backups: Annotated[
        int, Field(ge=0, le=100, description="How many log files that were put aside are kept.")
    ] = 4


class Settings(_Slice):
    """Everything that may be set; a part of Cortex receives its slice, never the whole."""

    clickhouse: Annotated[
        ClickHouseSettings, Field(description="Where the store is, and how to speak to it.")
    ] = ClickHouseSettings()
    mcp: Annotated[McpSettings, Field(description="What tools do where a caller does not say.")] = (
        McpSettings()
    )
    bm25: Annotated[Bm25Settings, Field(description="How hits are ranked.")] = Bm25Settings()
    ingest: Annotated[
        IngestSettings, Field(description="How the sessions of agents get into the store.")
    ] = IngestSettings()
    redaction: Annotated[
        RedactionSettings, Field(description="What is taken out of a session before it is stored.")
    ] = RedactionSettings()
    embedding: Annotated[
        EmbeddingSettings, Field(description="How code and questions become vectors.")
    ] = EmbeddingSettings()
    memory: Annotated[
        MemorySettings, Field(description="How long a memory lasts without helping anybody.")
    ] = MemorySettings()
    http: Annotated[HttpSettings, Field(description="MCP over HTTP, beside the socket.")] = (
        HttpSettings()
    )
    limits: Annotated[LimitsSettings, Field(description="How much one caller may ask for.")] = (
        LimitsSettings()
    )
    policy: Annotated[PolicySettings, Field(description="Who may do what.")] = PolicySettings()
    telemetry: Annotated[TelemetrySettings, Field(description="Where traces go.")] = (
        TelemetrySettings()
    )
    logs: Annotated[LogSettings, Field(description="What the daemon writes about itself.")] = (
        LogSettings()
    )
