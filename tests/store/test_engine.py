import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from cortex.errors import DeadlineExceeded, StoreError, StoreUnavailable
from cortex.settings.models import ClickHouseSettings
from cortex.store.engine import Engine, open_engine

pytestmark = pytest.mark.anyio

AWKWARD_TEXTS = [
    "",
    "plain",
    'it\'s "quoted" `so`',
    "back\\slash \\N \\' \t tab \n line \r",
    "nul \0 inside",
    "ünï 日本 😀",
    "'; DROP TABLE sample; --",
    "{x:String} %(y)s %s $1 ?",
    "x" * 200_000,
]


@pytest.mark.parametrize(
    ("column_type", "values"),
    [
        ("String", AWKWARD_TEXTS),
        ("LowCardinality(String)", AWKWARD_TEXTS),
        ("Nullable(String)", ["a", None, "", "\\N"]),
        ("Array(String)", [[], AWKWARD_TEXTS]),
        ("Array(Nullable(UInt8))", [[1, None, 255]]),
        ("UInt64", [0, 2**64 - 1]),
        ("Int64", [-(2**63), 2**63 - 1]),
        ("Float64", [0.1, -1e300, 5e-324]),
        ("Bool", [True, False]),
        ("DateTime64(3, 'UTC')", [datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)]),
        ("DateTime64(3)", [datetime(2026, 7, 2, 3, 4, 5, 678000, UTC)]),
        ("Tuple(String, Array(UInt8))", [("x", [1, 2])]),
    ],
)
async def test_a_value_inserted_or_bound_comes_back_as_it_was(
    engine: Engine, column_type: str, values: list[Any]
) -> None:
    await engine.command(
        f"CREATE TABLE sample (id UInt32, value {column_type}) ENGINE = MergeTree ORDER BY id"
    )
    await engine.insert("sample", ["id", "value"], list(enumerate(values)))
    rows = await engine.query("SELECT value FROM sample ORDER BY id")
    assert [row["value"] for row in rows] == values
    for value in values:
        assert await engine.query(f"SELECT {{v:{column_type}}} AS v", {"v": value}) == [
            {"v": value}
        ]


async def test_a_bound_value_is_never_read_as_sql(engine: Engine) -> None:
    await engine.command("CREATE TABLE sample (name String) ENGINE = MergeTree ORDER BY name")
    await engine.insert("sample", ["name"], [["safe"]])
    attack = {"name": "x' OR 1 = 1; DROP TABLE sample --"}
    assert await engine.query("SELECT * FROM sample WHERE name = {name:String}", attack) == []
    assert await engine.query("SELECT name FROM sample") == [{"name": "safe"}]


async def test_the_engine_says_what_it_is(engine: Engine, settings: ClickHouseSettings) -> None:
    assert engine.kind == ("embedded" if settings.url.startswith("chdb") else "server")
    assert engine.address == settings.url
    assert engine.version.startswith("26.")
    assert await engine.query("SELECT currentDatabase() AS name") == [{"name": settings.database}]
    await engine.ping()


async def test_opening_an_existing_database_keeps_what_is_in_it(
    settings: ClickHouseSettings,
) -> None:
    for expected in ([], [{"name": "kept"}]):
        engine = await open_engine(settings)
        await engine.command(
            "CREATE TABLE IF NOT EXISTS sample (name String) ENGINE = MergeTree ORDER BY name"
        )
        assert await engine.query("SELECT * FROM sample") == expected
        await engine.insert("sample", ["name"], [["kept"]])
        await engine.close()


async def test_inserting_no_rows_does_nothing(engine: Engine) -> None:
    await engine.insert("no_such_table", ["name"], [])


@pytest.mark.parametrize(
    ("sql", "code", "said"),
    [
        ("SELEC 'secret'", 62, "Syntax error"),
        ("SELECT * FROM nowhere WHERE x = 'secret'", 60, "nowhere"),
        ("SELECT toUInt8('1') + 'secret'", 43, "Illegal types"),
        ("INSERT INTO nowhere VALUES (1)", 60, "nowhere"),
    ],
)
async def test_a_refused_statement_is_one_line_with_the_code_of_clickhouse(
    engine: Engine, sql: str, code: int, said: str
) -> None:
    with pytest.raises(StoreError) as refused:
        await engine.query(sql)
    assert refused.value.details["clickhouseCode"] == code
    assert said in refused.value.message
    for unwanted in ("\n", "secret", "version", "http://", "SETTINGS"):
        assert unwanted not in str(refused.value)


async def test_a_row_that_does_not_fit_its_table_is_refused(engine: Engine) -> None:
    await engine.command("CREATE TABLE sample (n UInt8) ENGINE = MergeTree ORDER BY n")
    for columns, row in ((["n"], ["many"]), (["unknown"], [1])):
        with pytest.raises(StoreError):
            await engine.insert("sample", columns, [row])
    assert await engine.query("SELECT * FROM sample") == []


async def test_text_that_is_not_unicode_is_refused(engine: Engine) -> None:
    """JSON can carry half a surrogate pair; UTF-8 cannot."""
    await engine.command("CREATE TABLE sample (name String) ENGINE = MergeTree ORDER BY name")
    with pytest.raises(StoreError):
        await engine.query("SELECT {name:String}", {"name": "\ud800"})
    with pytest.raises(StoreError):
        await engine.insert("sample", ["name"], [["\ud800"]])
    await engine.ping()


async def test_eight_queries_at_once_each_get_their_own_answer(engine: Engine) -> None:
    answers: dict[int, int] = {}

    async def ask(n: int) -> None:
        rows = await engine.query("SELECT {n:UInt8} + sleep(0.05) AS n", {"n": n})
        answers[n] = rows[0]["n"]

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for n in range(8):
                tasks.start_soon(ask, n)
    assert answers == {n: n for n in range(8)}


async def test_a_closed_engine_refuses_with_one_line(settings: ClickHouseSettings) -> None:
    engine = await open_engine(settings)
    await engine.close()
    await engine.close()
    with pytest.raises(StoreUnavailable, match="The store is closed"):
        await engine.ping()


async def test_opening_and_asking_write_nothing_to_the_terminal(
    settings: ClickHouseSettings, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = await open_engine(settings)
    with pytest.raises(StoreError):
        await engine.query("SELECT * FROM nowhere")
    await engine.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["gzip", "lz4", "zstd"])
async def test_what_is_sent_to_a_server_can_be_compressed(
    server_settings: ClickHouseSettings, method: str
) -> None:
    engine = await open_engine(server_settings.model_copy(update={"request_compression": method}))
    await engine.command("CREATE TABLE sample (name String) ENGINE = MergeTree ORDER BY name")
    await engine.insert("sample", ["name"], [["x" * 100_000]])
    assert await engine.query("SELECT name FROM sample") == [{"name": "x" * 100_000}]
    await engine.close()


def test_moments_are_right_on_a_machine_outside_utc(tmp_path: Path) -> None:
    """The embedded engine takes its zone from the machine; a bound moment must not shift."""
    script = Path(__file__).with_name("moments.py")
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "TZ": "Asia/Kolkata"},
        check=True,
        timeout=30,
    )


async def test_records_are_rows_of_numbers(engine: Engine) -> None:
    row = np.dtype([("small", "u1"), ("large", "<u8"), ("signed", "<i8")])
    found = await engine.records(
        "SELECT toUInt8(number), bitNot(number), -toInt64(number) FROM numbers({count:UInt64})",
        row,
        {"count": 3},
    )
    assert found.tolist() == [(0, 2**64 - 1, 0), (1, 2**64 - 2, -1), (2, 2**64 - 3, -2)]
    nothing = await engine.records("SELECT toUInt8(1), toUInt64(1), toInt64(1) WHERE 0", row)
    assert nothing.tolist() == []


async def test_records_have_a_deadline(engine: Engine) -> None:
    with pytest.raises(DeadlineExceeded):
        await engine.records(
            "SELECT count() FROM numbers(1e12) WHERE NOT ignore(sipHash64(number))",
            np.dtype([("count", "<u8")]),
            timeout_s=0.3,
        )
