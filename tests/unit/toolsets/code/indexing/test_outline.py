"""What must hold whatever a grammar does."""

import pytest

from cortex.toolsets.code.indexing import outline
from cortex.toolsets.code.indexing.catalog import language_of
from cortex.toolsets.code.indexing.chunker import chunk_file
from cortex.toolsets.code.indexing.project import ProjectSettings


def test_a_grammar_that_takes_too_long_is_ended_and_the_file_cut_as_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The grammar of Scala needs time that grows with the square of open brackets."""
    monkeypatch.setattr(outline, "_MAX_PARSE_S", 0.05)
    source = b"words to find\n" + b"[" * 100_000
    language = language_of("a.scala", source)
    assert language is not None
    chunked = chunk_file(language, "a.scala", source, ProjectSettings().limits)
    assert chunked.is_broken
    assert "words to find" in chunked.chunks[0].text


def test_definitions_inside_what_does_not_parse_are_still_found() -> None:
    source = b"def before():\n    return 1\n\n)))] broken [(((\n\ndef after():\n    return 2\n"
    language = language_of("a.py", source)
    assert language is not None
    parsed = outline.outline(language, source, source.decode().split("\n"), 2400)
    assert {"before", "after"} <= {definition.name for definition in parsed.definitions}
