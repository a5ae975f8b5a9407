from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.errors import SettingsError
from cortex.settings.load import load_settings

Refusal = Callable[..., str]


@pytest.fixture
def refusal(tmp_path: Path) -> Refusal:
    """Give the one line that settings are refused with; FILE stands for their file."""
    path = tmp_path / "cortex.toml"

    def refusal(text: str = "", /, **environ: str) -> str:
        path.write_text(text)
        with pytest.raises(SettingsError) as caught:
            load_settings(home=tmp_path, config=None, environ={"HOME": "/home/ann"} | environ)
        assert str(caught.value).isprintable()
        return str(caught.value).replace(str(path), "FILE")

    return refusal


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[http]\nport = 70000\n",
            "FILE: http.port is 70000; expected an integer from 0 to 65535",
        ),
        (
            '[http]\nport = "3024"\n',
            'FILE: http.port is "3024"; expected an integer from 0 to 65535',
        ),
        (
            "[bm25]\nb = nan\n",
            "FILE: bm25.b is NaN; expected a number from 0 to 1",
        ),
        (
            "[limits]\nwindow_seconds = 0\n",
            "FILE: limits.window_seconds is 0; expected a number above 0, 86400 at most",
        ),
        (
            "[http]\nenabled = 1\n",
            "FILE: http.enabled is 1; expected true or false",
        ),
        (
            "[clickhouse]\nusername = true\n",
            "FILE: clickhouse.username is true; expected text of 1 to 200 characters",
        ),
        (
            "[clickhouse]\nusername = 1979-05-27\n",
            "FILE: clickhouse.username is a date or a time; expected text of 1 to 200 characters",
        ),
        (
            '[logs]\nlevel = "loud"\n',
            'FILE: logs.level is "loud"; expected debug, info, warning or error',
        ),
        (
            '[policy]\nfiles = "a.cedar"\n',
            'FILE: policy.files is "a.cedar"; expected a list of paths',
        ),
        (
            "[http]\ntoken_file = 5\n",
            "FILE: http.token_file is 5; expected a path",
        ),
        (
            "[clickhouse]\npassword = { file = 'x' }\n",
            "FILE: clickhouse.password is a table; expected text, kept secret",
        ),
        (
            "http = 3024\n",
            "FILE: http is an integer; expected a table",
        ),
        (
            '[ingest]\nsources = ["~/.codex"]\n',
            "FILE: ingest.sources[0] is text; expected a table",
        ),
        (
            '[[ingest.sources]]\nname = "x"\nharness = "codex"\n',
            "FILE: ingest.sources[0].glob is missing; expected text of 1 to 4096 characters",
        ),
        (
            '[http]\nbind = "0.0.0.0"\n',
            (
                'FILE: http.bind is "0.0.0.0"; '
                "expected a loopback address such as 127.0.0.1, or http.token_file set as well"
            ),
        ),
        (
            f"[http]\nport = 0x{'f' * 9000}\n",
            "FILE: http.port is a huge integer; expected an integer from 0 to 65535",
        ),
        (
            f"[logs]\nlevel = '{'x' * 99}'\n",
            f'FILE: logs.level is "{"x" * 60}…"; expected debug, info, warning or error',
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(
    refusal: Refusal, text: str, line: str
) -> None:
    assert refusal(text) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[clickhouse]\nurll = 1\n", "unknown key clickhouse.urll; did you mean clickhouse.url?"),
        ("[clikhouse]\n", "unknown key clikhouse; did you mean clickhouse?"),
        ("[clickhouse]\nport = 1\n", "unknown key clickhouse.port; did you mean http.port?"),
        ("port = 1\n", "unknown key port; did you mean http.port?"),
        ("[[ingest.sources]]\nname = 'x'\nharness = 'x'\nglob = '/x'\nformatt = 'x'\n",
         "unknown key ingest.sources[0].formatt; did you mean ingest.sources[0].format?"),
        ("zzz = 1\n", "unknown key zzz; docs/reference/settings.md lists every key"),
        ('[http]\n"a\\nb" = 1\n',
         "unknown key http.a\\nb; docs/reference/settings.md lists every key"),
        (f"[http]\n[http.{'.'.join('a' * 9000)}]\n",
         "unknown key http.a; docs/reference/settings.md lists every key"),
    ],
)  # fmt: skip
def test_an_unknown_key_gets_the_nearest_known_one(refusal: Refusal, text: str, line: str) -> None:
    assert refusal(text) == f"FILE: {line}"


def test_a_fault_of_a_variable_names_the_variable(refusal: Refusal) -> None:
    assert refusal(CORTEX_HTTP__PORT="abc") == (
        '$CORTEX_HTTP__PORT: http.port is "abc"; expected an integer from 0 to 65535'
    )
    assert refusal("[http]\nport = 1\n", CORTEX_HTTP__PORRT="1") == (
        "$CORTEX_HTTP__PORRT: unknown key http.porrt; did you mean http.port?"
    )
    assert refusal(CORTEX_HTPP__PORT="1") == (
        "$CORTEX_HTPP__PORT: unknown key htpp; did you mean http?"
    )
    assert refusal(CORTEX_HTTP__PORT="null") == (
        "$CORTEX_HTTP__PORT: http.port is null; expected an integer from 0 to 65535"
    )
    assert refusal(OTEL_EXPORTER_OTLP_ENDPOINT="localhost").startswith(
        '$OTEL_EXPORTER_OTLP_ENDPOINT: telemetry.otlp_endpoint is "localhost"; expected http://'
    )


@pytest.mark.parametrize("text", ["True", "yes", "[", "[" * 50_000, "1" * 5000, "NaN", "\udc80"])
def test_a_variable_that_is_no_json_of_the_right_type_is_refused(
    refusal: Refusal, text: str
) -> None:
    assert "expected true or false" in refusal(CORTEX_HTTP__ENABLED=text)


def test_a_section_that_is_no_table_is_refused_whatever_the_variables_say(
    refusal: Refusal,
) -> None:
    assert refusal("http = 1\n", CORTEX_HTTP__PORT="1") == (
        "FILE: http is an integer; expected a table"
    )


def test_moraine_keys_are_known_in_a_file_only(refusal: Refusal) -> None:
    assert "unknown key runtime" in refusal(CORTEX_RUNTIME__ROOT_DIR="/x")


def test_an_unset_variable_is_named_with_the_key_that_needs_it(refusal: Refusal) -> None:
    assert refusal('[clickhouse]\npassword = { env = "CH_PASSWORD" }\n') == (
        "FILE: clickhouse.password needs $CH_PASSWORD, which is not set"
    )


def test_of_several_faults_the_first_is_told_and_the_others_are_counted(
    refusal: Refusal,
) -> None:
    text = "[mcp]\nmax_results = 0\n[http]\nport = -1\nenabled = 'no'\n"
    assert refusal(text) == (
        "FILE: mcp.max_results is 0; expected an integer from 1 to 1000 (and 2 more)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "[clickhouse]\npassword = ['hunter2']\n",
        "[clickhouse]\npasswort = 'hunter2'\n",
        "[clickhouse]\nurl = 'htp://ann:hunter2@host'\n",
        "[clickhouse]\nurl = 'ann:hunter2@host:8123'\n",
        "[clickhouse]\nurl = 'http://host:8123?password=hunter2'\n",
        "[telemetry]\notlp_endpoint = 'grpc://ann:hunter2@host'\n",
        "clickhouse = 'http://ann:hunter2@host'\n",
        "[clickhouse]\nurl = { env = 'SECRET' }\n",
        "[mcp]\nmax_results = { env = 'SECRET' }\n",
        "[policy]\nfiles = [{ env = 'SECRET' }]\n",
        "[[ingest.sources]]\nname = 'x'\nharness = 'x'\nglob = { env = 'SECRET' }\n",
    ],
)
def test_no_secret_gets_into_the_line(refusal: Refusal, text: str) -> None:
    assert "hunter2" not in refusal(text, SECRET="hunter2")


def test_a_variable_that_the_file_refers_to_is_named_and_not_shown(refusal: Refusal) -> None:
    line = refusal("[clickhouse]\ndatabase = { env = 'DB' }\n", DB="my-db")
    assert line.startswith("$DB: clickhouse.database is not shown here; expected letters")


def test_a_variable_of_ours_over_a_reference_is_shown_again(refusal: Refusal) -> None:
    line = refusal(
        "[clickhouse]\ndatabase = { env = 'DB' }\n", DB="x", CORTEX_CLICKHOUSE__DATABASE="my-db"
    )
    assert line.startswith('$CORTEX_CLICKHOUSE__DATABASE: clickhouse.database is "my-db"')
