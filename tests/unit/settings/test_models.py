from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from cortex.settings.models import (
    Bm25Settings,
    ClickHouseSettings,
    HttpSettings,
    IngestSettings,
    IngestSource,
    PolicySettings,
    RedactionSettings,
    Settings,
    TelemetrySettings,
)
from cortex.settings.types import masked_url

SLICES = [field.annotation for field in Settings.model_fields.values()]


def refused(model: type[BaseModel], **values: object) -> str:
    with pytest.raises(ValidationError) as caught:
        model(**values)
    return str(caught.value)


@pytest.mark.parametrize("model", [Settings, IngestSource, *SLICES])
def test_every_field_says_what_it_is_for(model: type[BaseModel]) -> None:
    assert [name for name, field in model.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("model", [Settings, IngestSource, *SLICES])
def test_every_slice_is_frozen_and_refuses_unknown_keys(model: type[BaseModel]) -> None:
    assert model.model_config.get("frozen") is True
    assert model.model_config.get("extra") == "forbid"


def test_settings_cannot_be_changed_after_they_were_read() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().http.port = 1


@pytest.mark.parametrize(
    "url",
    [
        "",
        "chdb:///var/lib/cortex",
        "chdb:///Users/ann/Library/Application Support/cortex/clickhouse",
        "http://127.0.0.1:8123",
        "https://ann:secret@ch.example:8443",
        "http://[::1]:8123/proxied",
    ],
)
def test_store_urls_that_are_accepted(url: str) -> None:
    assert ClickHouseSettings(url=url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "chdb://relative/path",
        "chdb://memory",
        "chdb:///nul\0byte",
        "clickhouse://host:9000",
        "localhost:8123",
        "http://",
        "http://host:99999",
        "http://[::1",
        "http://host:8123?password=x",
    ],
)
def test_store_urls_that_are_refused_with_those_that_would_do(url: str) -> None:
    line = refused(ClickHouseSettings, url=url)
    assert "chdb:///absolute/path, http://host:port or https://host:port" in line


@pytest.mark.parametrize("name", ["", "9lives", "my-db", "a b", "x`; DROP", "x" * 65, "a\n"])
def test_a_database_name_must_be_safe_as_an_identifier(name: str) -> None:
    assert "letters, digits and underscores" in refused(ClickHouseSettings, database=name)


def test_a_cluster_name_may_have_dashes_and_dots() -> None:
    assert ClickHouseSettings(cluster="prod-eu.1").cluster == "prod-eu.1"
    assert "dashes" in refused(ClickHouseSettings, cluster="it's")


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_address_needs_nothing_else(bind: str) -> None:
    assert HttpSettings(bind=bind).bind == bind


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.168.1.5"])
def test_an_address_others_can_reach_must_be_said_twice(bind: str) -> None:
    assert "http.token_file set as well" in refused(HttpSettings, bind=bind)
    assert HttpSettings(bind=bind, token_file=Path("/etc/cortex/token")).bind == bind


def test_a_host_name_is_no_address_to_bind_to() -> None:
    assert "an IP address or localhost" in refused(HttpSettings, bind="example.org")


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "[[a-z]&&[^b]]", "", "(?<x"])
def test_a_pattern_that_python_cannot_read_is_refused(pattern: str) -> None:
    refused(RedactionSettings, extra_patterns=[pattern])


def test_patterns_are_kept_in_order() -> None:
    patterns = ("acme_[0-9]{32}", "(?i)token=")
    assert RedactionSettings(extra_patterns=patterns).extra_patterns == patterns


def test_two_sources_may_not_have_one_name() -> None:
    source = {"name": "codex", "harness": "codex", "glob": "/sessions/*.jsonl"}
    assert "'codex' is used twice" in refused(IngestSettings, sources=[source, source])


def test_no_sources_and_sources_left_open_are_two_things() -> None:
    assert IngestSettings(sources=()).sources == ()
    assert IngestSettings().sources is None


@pytest.mark.parametrize("path", ["policies/a.cedar", "", "./a", "~bob/a", "/nul\0"])
def test_a_path_that_depends_on_the_working_directory_is_refused(path: str) -> None:
    assert "an absolute path" in refused(PolicySettings, files=[path])


@pytest.mark.parametrize("value", ["30", True, float("nan"), float("inf"), -1, 11])
def test_numbers_are_numbers_and_in_range(value: object) -> None:
    refused(Bm25Settings, k1=value)


def test_an_integer_will_do_for_a_number() -> None:
    assert Bm25Settings(k1=2).k1 == 2.0


def test_an_otlp_endpoint_is_an_http_url() -> None:
    assert "http://host:port" in refused(TelemetrySettings, otlp_endpoint="localhost:4317")


def test_an_error_of_a_model_never_quotes_what_it_was_given() -> None:
    assert "hunter2" not in refused(ClickHouseSettings, url="htp://ann:hunter2@host")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:8123", "http://host:8123"),
        ("http://ann:pw@host:8123", "http://********@host:8123"),
        ("http://ann:p@ss/w:rd@host", "http://********@host"),
        ("ann:pw@host:8123", "********@host:8123"),
        ("http://host?password=pw", "http://host?********"),
        ("http://ann:p?w@host?a=b", "http://********@host?********"),
        ("", ""),
    ],
)
def test_the_credentials_of_a_url_are_masked(url: str, shown: str) -> None:
    assert masked_url(url) == shown
