import pytest

from cortex.errors import StoreError
from cortex.store.engine import Engine
from cortex.store.migrate import _RECORD, load_migrations
from cortex.store.sql import split_statements
from cortex.store.statement import Cluster, read_statement

CLUSTER = Cluster(
    "main-1", "cortex", {"events", "audit_log", "counts", "search_documents", "search_postings"}
)
ON = "ON CLUSTER 'main-1'"
PLACE = "'/clickhouse/tables/{shard}/{database}/events', '{replica}'"


def distributed(shard: str) -> str:
    over = f"'main-1', 'cortex', 'events_local', {shard}"
    return f"CREATE TABLE IF NOT EXISTS events {ON} AS events_local ENGINE = Distributed({over})"


SAMPLES = {
    """-- what was said
    -- shard: cityHash64(session)
    CREATE TABLE IF NOT EXISTS events (
        session String COMMENT 'ENGINE = (;',
        body String CODEC(ZSTD(3)) /* ; */, INDEX b body TYPE minmax
    )
    ENGINE = ReplacingMergeTree(version, is_deleted)
    PARTITION BY toYYYYMM(at) ORDER BY (session) TTL at + INTERVAL 1 DAY
    SETTINGS index_granularity = 1024""": [
        f"""CREATE TABLE IF NOT EXISTS events_local {ON} (
        session String COMMENT 'ENGINE = (;',
        body String CODEC(ZSTD(3)) /* ; */, INDEX b body TYPE minmax
    )
    ENGINE = ReplicatedReplacingMergeTree({PLACE}, version, is_deleted)
    PARTITION BY toYYYYMM(at) ORDER BY (session) TTL at + INTERVAL 1 DAY
    SETTINGS index_granularity = 1024""",
        distributed("cityHash64(session)"),
    ],
    """-- shard: rand()
    create table if not exists events(n UInt8) engine = MergeTree() order by n""": [
        f"""CREATE TABLE IF NOT EXISTS events_local {ON} \
(n UInt8) engine = ReplicatedMergeTree({PLACE}) order by n""",
        distributed("rand()"),
    ],
    """-- shard: n
    CREATE TABLE IF NOT EXISTS events (n UInt8) ENGINE = MergeTree ORDER BY n""": [
        f"""CREATE TABLE IF NOT EXISTS events_local {ON} \
(n UInt8) ENGINE = ReplicatedMergeTree({PLACE}) ORDER BY n""",
        distributed("n"),
    ],
    """-- shard: n
    CREATE TABLE IF NOT EXISTS events (n UInt8) ENGINE = Null""": [
        f"CREATE TABLE IF NOT EXISTS events_local {ON} (n UInt8) ENGINE = Null",
        distributed("n"),
    ],
    "CREATE VIEW IF NOT EXISTS v AS SELECT * FROM events": [
        f"CREATE VIEW IF NOT EXISTS v {ON} AS SELECT * FROM events"
    ],
    "CREATE OR REPLACE VIEW v AS SELECT 1": [f"CREATE OR REPLACE VIEW v {ON} AS SELECT 1"],
    """CREATE MATERIALIZED VIEW IF NOT EXISTS m TO counts AS
    SELECT events.session, count() AS n FROM events
    INNER JOIN audit_log AS a ON a.call_id = events.session
    WHERE session NOT IN (SELECT x FROM numbers(3)) GROUP BY session""": [
        f"""CREATE MATERIALIZED VIEW IF NOT EXISTS m {ON} TO counts_local AS
    SELECT events.session, count() AS n FROM events_local AS events
    INNER JOIN audit_log_local AS a ON a.call_id = events.session
    WHERE session NOT IN (SELECT x FROM numbers(3)) GROUP BY session"""
    ],
    "CREATE OR REPLACE FUNCTION twice AS (x) -> x * 2": [
        f"CREATE OR REPLACE FUNCTION twice {ON} AS (x) -> x * 2"
    ],
    """ALTER TABLE events ADD COLUMN IF NOT EXISTS size Decimal(9, 2) DEFAULT f(1, ','),
    ADD INDEX IF NOT EXISTS s size TYPE minmax""": [
        f"""ALTER TABLE events_local {ON} ADD COLUMN IF NOT EXISTS size Decimal(9, 2) \
DEFAULT f(1, ','), ADD INDEX IF NOT EXISTS s size TYPE minmax""",
        f"ALTER TABLE events {ON} ADD COLUMN IF NOT EXISTS size Decimal(9, 2) DEFAULT f(1, ',')",
    ],
    "ALTER TABLE events DROP COLUMN IF EXISTS size, MODIFY COLUMN session FixedString(9)": [
        f"ALTER TABLE {t} {ON} DROP COLUMN IF EXISTS size, MODIFY COLUMN session FixedString(9)"
        for t in ("events_local", "events")
    ],
    "ALTER TABLE events MODIFY TTL at + INTERVAL 1 YEAR": [
        f"ALTER TABLE events_local {ON} MODIFY TTL at + INTERVAL 1 YEAR"
    ],
    "DROP TABLE IF EXISTS events": [
        f"DROP TABLE IF EXISTS events {ON} SYNC",
        f"DROP TABLE IF EXISTS events_local {ON} SYNC",
    ],
    "DROP VIEW IF EXISTS v": [f"DROP VIEW IF EXISTS v {ON}"],
}


@pytest.mark.parametrize(("sql", "variants"), SAMPLES.items())
def test_a_statement_has_its_form_on_a_cluster(sql: str, variants: list[str]) -> None:
    assert CLUSTER.variant(read_statement(sql)) == variants


@pytest.mark.anyio
async def test_the_parser_of_clickhouse_accepts_every_statement_and_variant(engine: Engine) -> None:
    statements = [_RECORD, *(read_statement(sql) for sql in SAMPLES)]
    for migration in load_migrations():
        statements += migration.statements
    for statement in statements:
        for sql in [statement.text, *CLUSTER.variant(statement)]:
            assert await engine.query(f"EXPLAIN AST {sql}")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CREATE TABLE events (n UInt8) ENGINE = MergeTree", "not a form"),
        ("CREATE TABLE IF NOT EXISTS events AS other", "not a form"),
        ("CREATE TABLE IF NOT EXISTS events (n UInt8) ENGINE = MergeTree", "-- shard:"),
        ("-- shard: n\nCREATE TABLE IF NOT EXISTS e (n UInt8) ENGINE = Memory", "MergeTree family"),
        ("-- shard: n\nCREATE TABLE IF NOT EXISTS e (n UInt8)", "MergeTree family"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS m ENGINE = Log AS SELECT 1", "not a form"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS m TO lost AS SELECT 1", "no migration creates"),
        ("ALTER TABLE lost ADD COLUMN IF NOT EXISTS n UInt8", "no migration creates lost"),
        ("ALTER TABLE events ADD COLUMN n UInt8", "not a change"),
        ("ALTER TABLE events DETACH PARTITION 1", "not a change"),
        ("DROP TABLE events", "not a form"),
        ("INSERT INTO events VALUES (1)", "not a form"),
        ("TRUNCATE TABLE events", "not a form"),
        ("", "not a form"),
    ],
)
def test_a_statement_without_a_form_is_refused_in_one_line(sql: str, reason: str) -> None:
    with pytest.raises(StoreError) as refused:
        CLUSTER.variant(read_statement(sql))
    assert reason in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("sql", "statements"),
    [
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT ';'; SELECT `;`, \";\"", ["SELECT ';'", 'SELECT `;`, ";"']),
        (r"SELECT 'it''s \'; ;' ; x", [r"SELECT 'it''s \'; ;'", "x"]),
        ("-- a;\nSELECT /* ; */ 1 -- b;\n; -- c;", ["-- a;\nSELECT /* ; */ 1 -- b;"]),
        ("SELECT $$ ; $$, $a$ ;$$; $a$; x", ["SELECT $$ ; $$, $a$ ;$$; $a$", "x"]),
        (" ;; \n ; ", []),
    ],
)
def test_statements_are_cut_where_clickhouse_would_end_them(
    sql: str, statements: list[str]
) -> None:
    assert split_statements(sql) == statements
