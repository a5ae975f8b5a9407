"""Other search engines over the same texts, to compare with."""

import contextlib
import importlib
import sqlite3
import tempfile
from collections.abc import Callable, Generator
from typing import Any

from corpus import Corpus

LIMIT = 25
MB = 1024 * 1024


@contextlib.contextmanager
def fts5(corpus: Corpus) -> Generator[Callable[[str], Any]]:
    """Yield a search on SQLite FTS5 over the ranked texts."""
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(f"{folder}/fts5.db")
        database.execute("CREATE VIRTUAL TABLE said USING fts5(session UNINDEXED, text)")
        with database:
            database.executemany("INSERT INTO said VALUES (?, ?)", corpus.said)

        def search(query: str) -> Any:
            words = " OR ".join(f'"{word}"' for word in query.split())
            return database.execute(
                "SELECT session, snippet(said, 1, '', '', '…', 40), bm25(said) AS score FROM said"
                " WHERE said MATCH ? ORDER BY score LIMIT ?",
                (words, LIMIT),
            ).fetchall()

        yield search
        database.close()


@contextlib.contextmanager
def tantivy(corpus: Corpus) -> Generator[Callable[[str], Any] | None]:
    """Yield a search on tantivy over the ranked texts, or nothing where it is not installed."""
    try:
        library: Any = importlib.import_module("tantivy")
    except ModuleNotFoundError:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        builder = library.SchemaBuilder()
        builder.add_text_field("session", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", stored=True)
        index = library.Index(builder.build(), path=folder)
        writer = index.writer(heap_size=128 * MB)
        for session, text in corpus.said:
            writer.add_document(library.Document(session=[session], text=[text]))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        searcher = index.searcher()

        def search(query: str) -> Any:
            words = " ".join(f'"{word}"' for word in query.split())
            found = searcher.search(index.parse_query(words, ["text"]), LIMIT).hits
            return [searcher.doc(address).get_first("text")[:320] for _, address in found]

        yield search
