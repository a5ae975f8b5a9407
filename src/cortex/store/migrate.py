"""Brings a database to the schema of this program: plain-SQL files, in order, each recorded once.

A file is recorded after all of its statements ran; as they are idempotent, a migration killed at
any point, or run by two processes at once, ends in the same schema. Nothing here goes backwards.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise

from cortex.errors import SchemaMismatch, StoreError
from cortex.store.engine import Engine
from cortex.store.sql import split_statements
from cortex.store.statement import Cluster, Statement, read_statement

# A change to a big table takes what it takes; the daemon is not ready before it is done.
_STATEMENT_TIMEOUT_S = 3600.0
_FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")

# Ordered by checksum as well: two programs that disagree about a version both stay visible.
_RECORD = read_statement(
    """-- shard: version
    CREATE TABLE IF NOT EXISTS schema_migrations
    (
        version    UInt32,
        name       String,
        checksum   String,
        applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
    )
    ENGINE = ReplacingMergeTree
    ORDER BY (version, checksum)"""
)


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    checksum: str
    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        return f"{self.version:04}_{self.name}"


def load_migrations(directory: Traversable | None = None) -> list[Migration]:
    """Read the migrations of a directory, the shipped ones by default, lowest version first.

    Raises:
        StoreError: a file is misnamed, a version is taken twice, or a statement has no form on a
            cluster.
    """
    folder = directory or files("cortex.store") / "migrations"
    found = [_read(file) for file in folder.iterdir() if file.name.endswith(".sql")]
    migrations = sorted(found, key=lambda migration: (migration.version, migration.name))
    for one, next_one in pairwise(migrations):
        if one.version == next_one.version:
            raise StoreError(f"Migrations {one} and {next_one} have the same version")
    trial = Cluster("trial", "trial", _tables(migrations))
    for migration in migrations:
        for statement in migration.statements:
            trial.variant(statement)
    return migrations


async def migrate(
    engine: Engine, migrations: Sequence[Migration] | None = None, *, cluster: str | None = None
) -> list[Migration]:
    """Apply what the database lacks and return it.

    Raises:
        SchemaMismatch: the database is newer than these migrations, or one was changed since.
    """
    known = load_migrations() if migrations is None else migrations
    target = Cluster(cluster, engine.database, _tables(known)) if cluster else None
    await _apply(engine, _RECORD, target)
    recorded = await _recorded(engine)
    _check(engine, known, recorded)
    missing = [migration for migration in known if migration.version not in recorded]
    for migration in missing:
        for statement in migration.statements:
            await _apply(engine, statement, target)
        row = (migration.version, migration.name, migration.checksum)
        await engine.insert("schema_migrations", ("version", "name", "checksum"), [row])
    return missing


def _read(file: Traversable) -> Migration:
    named = _FILE_NAME.fullmatch(file.name)
    if named is None:
        raise StoreError(f"Migration {file.name} is not named NNNN_name.sql")
    # A checkout may rewrite line ends; that is no change of the migration.
    text = file.read_bytes().decode().replace("\r\n", "\n")
    statements = tuple(read_statement(sql) for sql in split_statements(text))
    if not statements:
        raise StoreError(f"Migration {file.name} holds no statement")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return Migration(int(named["version"]), named["name"], checksum, statements)


def _tables(migrations: Sequence[Migration]) -> Collection[str]:
    statements = [statement for migration in migrations for statement in migration.statements]
    return {statement.name for statement in statements if statement.form == "table"}


async def _apply(engine: Engine, statement: Statement, target: Cluster | None) -> None:
    for sql in target.variant(statement) if target else [statement.text]:
        await engine.command(sql, timeout_s=_STATEMENT_TIMEOUT_S)


async def _recorded(engine: Engine) -> dict[int, list[tuple[str, str]]]:
    rows = await engine.query(
        "SELECT version, name, checksum FROM schema_migrations FINAL ORDER BY version, checksum"
    )
    recorded: dict[int, list[tuple[str, str]]] = {}
    for row in rows:
        recorded.setdefault(row["version"], []).append((row["name"], row["checksum"]))
    return recorded


def _check(
    engine: Engine, known: Sequence[Migration], recorded: dict[int, list[tuple[str, str]]]
) -> None:
    by_version = {migration.version: migration for migration in known}
    for version, entries in recorded.items():
        migration = by_version.get(version)
        if migration is None:
            raise SchemaMismatch(
                f"Database {engine.database} at {engine.address} has migration "
                f"{version:04}_{entries[-1][0]}, which this Cortex does not know",
                hint="upgrade Cortex, or set another [clickhouse] database",
            )
        if any(checksum != migration.checksum for _, checksum in entries):
            raise SchemaMismatch(
                f"Migration {migration} is not the one that was applied to database "
                f"{engine.database} at {engine.address}",
                hint="install the Cortex that applied it, or set another [clickhouse] database",
            )
