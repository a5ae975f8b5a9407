"""The chunks of every language, whole: text, title, tags and metadata."""

import pytest

import code_goldens
from cortex.toolsets.code.indexing.catalog import WITHOUT_GRAMMAR
from cortex.toolsets.code.indexing.grammars import WITH_GRAMMAR


@pytest.mark.parametrize("name", code_goldens.names())
def test_chunks_are_as_written_down(name: str) -> None:
    """After a wanted change: `python tests/code_goldens.py --update`, and read the diff."""
    golden = code_goldens.FOLDER / f"{name}.txt"
    assert code_goldens.golden(name) == golden.read_text("utf-8")


def test_every_language_with_a_grammar_has_a_golden_file() -> None:
    found = {
        chunk.language for name in code_goldens.names() for chunk in code_goldens.chunks_of(name)
    }
    assert {language.name for language in WITH_GRAMMAR} <= found


def test_no_extension_belongs_to_two_languages() -> None:
    every = [e for language in (*WITH_GRAMMAR, *WITHOUT_GRAMMAR) for e in language.extensions]
    assert len(every) == len(set(every))


@pytest.mark.parametrize("name", code_goldens.names())
def test_every_line_with_a_word_is_in_a_chunk(name: str) -> None:
    file = next((code_goldens.SOURCES / name).iterdir())
    covered = {
        line
        for chunk in code_goldens.chunks_of(name)
        if chunk.chunk_type != "symbols"
        for line in range(chunk.start_line, chunk.end_line + 1)
    }
    for number, line in enumerate(file.read_text("utf-8").split("\n"), 1):
        if any(character.isalnum() for character in line):
            assert number in covered, line
