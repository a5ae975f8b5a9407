"""Line ranges of chunks always match the source, whatever the source is."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.toolsets.code.indexing.catalog import language_of
from cortex.toolsets.code.indexing.chunker import chunk_file
from cortex.toolsets.code.indexing.limits import ChunkLimits
from cortex.toolsets.code.models import Chunk

PATHS = (
    "a.py a.ts a.tsx a.js a.go a.rs a.java a.kt a.c a.cpp a.cs a.php a.rb a.swift a.scala a.sh"
    " a.lua a.ex a.hs a.zig a.sql a.toml a.yml a.json a.md a.rst a.txt"
).split()
# Pieces of many languages: what is broken in one is a definition in another.
PIECES = (
    "class A:\n    def b(self):\n        return 1\n",
    "def f(x):\n  x\nend\n",
    "function g(a) { return a; }\n",
    "const LIMIT = 5;\n",
    "pub struct S { x: i32 }\nimpl S { fn new() -> S { S { x: 1 } } }\n",
    "type T struct {\n\ta int\n}\n\nfunc (t *T) Get() int {\n\treturn t.a\n}\n",
    "// a comment\n",
    "# A heading\n",
    "## Another\n\ntext\n",
    "```\n## no heading\n```\n",
    "/* one\n two */\n",
    "Title\n=====\n",
    "[section]\nkey = 1\n",
    "module M where\nf :: Int\nf = 1\n",
    "defmodule A do\n  def b, do: 1\nend\n",
    "{{{(((\n",
    "}}}\n",
    '"unclosed\n',
    "\n\n",
    "   \t\n",
    "word " * 80 + "\n",
    "x" * 900 + "\n",
    "\r\n",
    "é\u2028ß\x0c\x1c\n",
    "---\ntags: [a]\n---\n",
)
sources = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=40)), max_size=25)
LIMITS = ChunkLimits(
    code_tokens=50,
    doc_tokens=50,
    overlap_tokens=10,
    chunk_types=frozenset({"symbols", "definitions", "data", "documentation"}),
)


def body_of(chunk: Chunk) -> str:
    """Return the text without what the chunker put before it."""
    if chunk.chunk_type == "documentation":
        above = " > ".join(chunk.metadata["headings"])
        return chunk.text.removeprefix(f"{above}\n\n") if above else chunk.text
    return re.sub(r"\A\S+ Lines? [\d-]+\n(?:\S+ In [^\n]*\n)?", "", chunk.text)


@settings(deadline=None, max_examples=300)
@given(path=st.sampled_from(PATHS), pieces=sources)
def test_line_ranges_match_the_source(path: str, pieces: list[str]) -> None:
    source = "".join(pieces).encode("utf-8", "replace")
    language = language_of(path, source)
    assert language is not None
    chunks = chunk_file(language, path, source, LIMITS).chunks
    text = source.decode().removeprefix("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    covered: set[int] = set()
    for chunk in chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        if chunk.chunk_type != "symbols":
            rows = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
            assert body_of(chunk) == rows or (
                chunk.start_line == chunk.end_line and body_of(chunk) in rows
            )
            covered.update(range(chunk.start_line, chunk.end_line + 1))
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    closers = {"end", "fi", "done", "esac"}
    for number, line in enumerate(lines, 1):
        if re.search(r"[^\W_]", line) and not set(re.findall(r"\w+", line)) <= closers:
            assert number in covered, line
