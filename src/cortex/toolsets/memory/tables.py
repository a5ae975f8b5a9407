"""The tables of memory in SQLite: rows, words, vectors, sealed texts, outcomes, approval codes."""

import sqlite3

from cortex.errors import SchemaMismatch

VERSION = 1

_TABLES = (
    "CREATE TABLE IF NOT EXISTS memory_version (version INTEGER PRIMARY KEY) STRICT",
    # `seq` is the ledger record that made the row what it is.
    (
        "CREATE TABLE IF NOT EXISTS memories ("
        " row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, claim TEXT NOT NULL,"
        " claim_key TEXT NOT NULL, evidence TEXT NOT NULL, reason TEXT NOT NULL,"
        " tags TEXT NOT NULL,"
        " confidence REAL NOT NULL, status TEXT NOT NULL, trust TEXT NOT NULL,"
        " project TEXT NOT NULL,"
        " author TEXT NOT NULL, principal TEXT NOT NULL, client TEXT NOT NULL,"
        " session TEXT NOT NULL,"
        " created_at TEXT NOT NULL, updated_at TEXT NOT NULL, review_at TEXT, reviewed_at TEXT,"
        " review_wanted TEXT NOT NULL, times_noted INTEGER NOT NULL, helpful INTEGER NOT NULL,"
        " not_helpful INTEGER NOT NULL, last_helpful_at TEXT, supersedes TEXT, superseded_by TEXT,"
        " contradicts TEXT NOT NULL, near TEXT NOT NULL, secrets TEXT NOT NULL,"
        " has_files INTEGER NOT NULL, sealed TEXT NOT NULL, seq INTEGER NOT NULL) STRICT"
    ),
    "CREATE INDEX IF NOT EXISTS memories_by_key ON memories (claim_key)",
    "CREATE INDEX IF NOT EXISTS memories_by_status ON memories (status, trust, updated_at)",
    "CREATE INDEX IF NOT EXISTS memories_by_age ON memories (updated_at, id)",
    "CREATE INDEX IF NOT EXISTS memories_by_session ON memories (session, status)",
    "CREATE INDEX IF NOT EXISTS memories_with_files ON memories (row) WHERE has_files",
    # The words of a memory, apart from the ledger that seals them: `forget` deletes them here.
    (
        "CREATE TABLE IF NOT EXISTS memory_texts ("
        " digest TEXT PRIMARY KEY, memory_id TEXT NOT NULL, content TEXT NOT NULL) STRICT"
    ),
    "CREATE INDEX IF NOT EXISTS memory_texts_by_memory ON memory_texts (memory_id)",
    # Which ledger records tell of a memory: an index, made again from the ledger.
    (
        "CREATE TABLE IF NOT EXISTS memory_history ("
        " memory_id TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (memory_id, seq))"
        " STRICT, WITHOUT ROWID"
    ),
    (
        "CREATE TABLE IF NOT EXISTS memory_outcomes ("
        " memory_id TEXT NOT NULL, session TEXT NOT NULL, result TEXT NOT NULL, at TEXT NOT NULL,"
        " PRIMARY KEY (memory_id, session)) STRICT"
    ),
    (
        "CREATE TABLE IF NOT EXISTS memory_codes ("
        " code_hash TEXT PRIMARY KEY, digest TEXT NOT NULL, expires_at TEXT NOT NULL) STRICT"
    ),
    (
        "CREATE TABLE IF NOT EXISTS memory_vectors ("
        " row INTEGER PRIMARY KEY, model TEXT NOT NULL, sealed TEXT NOT NULL, vector BLOB NOT NULL)"
        " STRICT"
    ),
    # `terms` are stems made by words.py; `marks` are what a search may be narrowed to.
    (
        "CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5("
        " terms, marks, tokenize = \"unicode61 remove_diacritics 0 tokenchars '_'\")"
    ),
    "CREATE VIRTUAL TABLE IF NOT EXISTS memory_vocab USING fts5vocab('memory_words', 'col')",
)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make what is missing; tables of a newer Cortex are left alone."""
    # What is forgotten is overwritten, not only unlinked.
    connection.execute("PRAGMA secure_delete = ON")
    for statement in _TABLES:
        connection.execute(statement)
    (found,) = connection.execute("SELECT max(version) FROM memory_version").fetchone()
    if found is None:
        connection.execute("INSERT INTO memory_version (version) VALUES (?)", (VERSION,))
    elif int(found) > VERSION:
        raise SchemaMismatch(
            f"the memories were written by a newer Cortex (version {found}, this one knows"
            f" {VERSION})",
            hint="install the newer Cortex, or use another CORTEX_HOME",
        )
