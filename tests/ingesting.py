"""Session files made for tests, and what ingest must have made of them.

As a script: reads a folder into an embedded store and kills itself, as `kill -9` would, after the
n-th write (0: never), or goes on reading what is appended until somebody kills it.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from cortex.clock import Clock, SystemClock
from cortex.settings.models import (
    ClickHouseSettings,
    IngestSettings,
    IngestSource,
    RedactionSettings,
)
from cortex.store.engine import Engine, open_engine
from cortex.store.migrate import migrate
from cortex.toolsets.conversations.ingest.service import IngestService
from cortex.toolsets.conversations.redaction import Redactor

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
# Documents and postings know an event by its number only.
_NAMED = "AS d JOIN (SELECT doc_id, event_uid FROM events) AS e ON d.doc_id = e.doc_id"
WORDS = "cedar harbour lantern meadow copper violin thunder saffron orchard glacier".split()


def claude_line(session: str, number: int, text: str = "", **more: Any) -> dict[str, Any]:
    """Return one prompt or answer as Claude Code writes it."""
    role = "user" if number % 2 == 0 else "assistant"
    said = text or " ".join(WORDS[(number * 7 + k) % len(WORDS)] for k in range(6))
    return {
        "type": role,
        "uuid": f"{session}-{number}",
        "sessionId": session,
        "cwd": "/home/ada/loom",
        "timestamp": (BEGIN + timedelta(seconds=number)).isoformat(),
        "message": {"role": role, "content": [{"type": "text", "text": said}]},
    } | more


def written(records: Sequence[Any]) -> bytes:
    """Return lines; bytes are taken as they are."""
    lines = (r if isinstance(r, bytes) else json.dumps(r).encode() for r in records)
    return b"".join(line + b"\n" for line in lines)


def settings_for(folder: Path, **more: Any) -> IngestSettings:
    """Return settings that read what lies below a folder, one folder for each agent."""
    sources = tuple(
        IngestSource(name=name, harness=name, glob=f"{folder}/{name}/{glob}")
        for name, glob in (
            ("claude-code", "**/*.jsonl"),
            ("gemini-cli", "**/session-*.json*"),
            ("opencode", "*.db"),
            ("cursor", "*.vscdb"),
        )
    )
    return IngestSettings(sources=sources, **more)


def service_on(
    engine: Engine,
    settings: IngestSettings,
    clock: Clock | None = None,
    on_change: Callable[[], None] = lambda: None,
) -> IngestService:
    """Return a service as the daemon makes it."""
    redactor = Redactor(RedactionSettings())
    return IngestService(engine, settings, redactor, clock or SystemClock(), on_change)


async def contents(engine: Engine) -> dict[str, list[Any]]:
    """Return what the store holds, without what depends on the order of reading: numbers."""
    found: dict[str, list[Any]] = {}
    for table, columns, order in (
        ("events", "* EXCEPT (batch, doc_id)", "event_uid"),
        ("raw_events", "* EXCEPT (batch, doc_id, ingested_at)", "session_id, record_key"),
        ("event_links", "* EXCEPT (batch)", "ALL"),
        ("tool_io", "* EXCEPT (batch)", "ALL"),
        (f"search_documents {_NAMED}", "event_uid, d.* EXCEPT (batch, doc_id)", "event_uid"),
        (f"search_postings {_NAMED}", "event_uid, d.* EXCEPT (doc_id)", "ALL"),
        ("ingest_errors", "source_file, source_line_no, error_kind, error_text", "ALL"),
        ("search_term_stats", "*", "term"),
        ("search_corpus_stats", "*", "ALL"),
    ):
        rows = await engine.query(f"SELECT {columns} FROM {table} ORDER BY {order}")
        found[table.split()[0]] = [tuple(row.values()) for row in rows]
    return found


async def check(engine: Engine) -> None:
    """Assert that every row is there once and the index is that of the documents."""
    claims = {
        "an event twice": "SELECT event_uid FROM events GROUP BY event_uid HAVING count() > 1",
        "a number twice": "SELECT doc_id FROM events GROUP BY doc_id HAVING count() > 1",
        "a record twice": "SELECT session_id, record_key FROM raw_events"
        " GROUP BY session_id, record_key HAVING count() > 1",
        "a record's events": "SELECT doc_id FROM raw_events ARRAY JOIN"
        " range(event_count) AS n WHERE doc_id + n NOT IN (SELECT doc_id FROM events)",
        "an event without record": "SELECT doc_id FROM events WHERE doc_id NOT IN"
        " (SELECT doc_id + n FROM raw_events ARRAY JOIN range(event_count) AS n)",
        "a document without event": "SELECT doc_id FROM search_documents"
        " WHERE doc_id NOT IN (SELECT doc_id FROM events)",
        "a posting twice": "SELECT term, doc_id FROM search_postings"
        " GROUP BY term, doc_id HAVING count() > 1",
        "a posting without document": "SELECT doc_id FROM search_postings"
        " WHERE doc_id NOT IN (SELECT doc_id FROM search_documents)",
        "a document without postings": "SELECT doc_id FROM search_documents"
        " WHERE doc_id NOT IN (SELECT doc_id FROM search_postings)",
        "a stream twice": "SELECT stream FROM ingest_streams GROUP BY stream HAVING count() > 1",
        "an error twice": "SELECT error_id FROM ingest_errors GROUP BY error_id HAVING count() > 1",
        "a batch left open": "SELECT batch FROM ingest_batches"
        " GROUP BY batch HAVING max(state) = 1",
    }
    for what, sql in claims.items():
        assert await engine.query(f"{sql} LIMIT 5") == [], what


class DyingEngine(Engine):
    """Counts writes, and after some of them does what it was told to."""

    writes_left: int
    die: Callable[[], None]

    async def command(self, *args: Any, **options: Any) -> None:
        await super().command(*args, **options)
        self._count_down()

    async def insert(self, table: str, columns: Any, rows: Any, **options: Any) -> None:
        await super().insert(table, columns, rows, **options)
        if rows:
            self._count_down()

    def _count_down(self) -> None:
        self.writes_left -= 1
        if self.writes_left == 0:
            self.die()


def make_dying(engine: Engine, writes: int, die: Callable[[], None]) -> DyingEngine:
    """Turn an engine into one that does not survive its n-th write."""
    engine.__class__ = DyingEngine
    assert isinstance(engine, DyingEngine)
    engine.writes_left, engine.die = writes, die
    return engine


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _main(store: str, folder: str, writes: int) -> None:
    engine = await open_engine(ClickHouseSettings(url=f"chdb://{store}"))
    await migrate(engine)
    make_dying(engine, writes, _kill_self)
    service = service_on(engine, settings_for(Path(folder), batch_size=8))
    if writes < 0:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await service.run()
    await service.read(None, None)
    await engine.close()


if __name__ == "__main__":
    anyio.run(_main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
