"""What the specification says and project-cortex 1.3.1 did not do; reference §0, row by row."""

import re
from itertools import pairwise

from cortex.toolsets.code.indexing.catalog import language_of
from cortex.toolsets.code.indexing.chunker import Chunked, chunk_file
from cortex.toolsets.code.indexing.limits import ChunkLimits
from cortex.toolsets.code.models import Chunk

LIMITS = ChunkLimits(
    code_tokens=600,
    doc_tokens=100,
    overlap_tokens=10,
    chunk_types=frozenset({"symbols", "definitions", "data", "documentation"}),
)
SMALL = ChunkLimits(
    code_tokens=60,
    doc_tokens=100,
    overlap_tokens=10,
    chunk_types=frozenset({"symbols", "definitions", "data", "documentation"}),
)
GO = b"""package auth

import "errors"

// AuthHandler checks people.
type AuthHandler struct {
	limit int
}

// Check says yes or no.
func (h *AuthHandler) Check(name string) error {
	return errors.New(name)
}
"""


def cut(path: str, source: bytes | str, limits: ChunkLimits = LIMITS) -> Chunked:
    data = source.encode() if isinstance(source, str) else source
    language = language_of(path, data)
    assert language is not None
    return chunk_file(language, path, data, limits)


def of_type(path: str, source: bytes | str, kind: str, limits: ChunkLimits = LIMITS) -> list[Chunk]:
    return [chunk for chunk in cut(path, source, limits).chunks if chunk.chunk_type == kind]


def test_id_and_title_are_those_of_the_seed() -> None:
    [symbols] = of_type("internal/auth/handler.go", GO, "symbols")
    assert symbols.id == "code-symbols-internal-auth-handler-go"
    assert symbols.title == "internal/auth/handler.go symbols"


def test_paths_that_read_alike_have_different_ids() -> None:
    paths = ["a/b.go", "a-b.go", "a.b.go", "a/b/go.go", "a_b.go", "a b.go"]
    ids = [of_type(path, GO, "symbols")[0].id for path in paths]
    assert len(set(ids)) == len(paths)


def test_symbols_say_package_imports_types_and_functions_with_their_lines() -> None:
    [symbols] = of_type("internal/auth/handler.go", GO, "symbols")
    assert symbols.text == (
        "Package: auth\n\nImports: 1 packages\n\n"
        "Types:\n  - AuthHandler (struct) (lines 5-8)\n\n"
        "Functions:\n  - AuthHandler.Check(name string) error (lines 10-13)"
    )


def test_metadata_of_symbols_has_the_counts() -> None:
    [symbols] = of_type("internal/auth/handler.go", GO, "symbols")
    assert symbols.metadata == {
        "source": "code",
        "file_path": "internal/auth/handler.go",
        "language": "go",
        "package": "auth",
        "imports_count": 1,
        "types_count": 1,
        "functions_count": 1,
        "start_line": 1,
        "end_line": 13,
    }


def test_definitions_have_their_comment_and_say_their_lines() -> None:
    texts = [chunk.text for chunk in of_type("a.go", GO, "definitions")]
    assert any("// AuthHandler checks people.\ntype AuthHandler struct {" in text for text in texts)
    assert all(re.match(r"// Lines? \d+(-\d+)?\n", text) for text in texts)


def test_code_chunks_have_a_line_range() -> None:
    for chunk in cut("a.go", GO).chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= 13


def test_tags_come_from_language_type_path_front_matter_and_hashtags() -> None:
    [symbols] = of_type("internal/auth/handler.go", GO, "symbols")
    assert symbols.tags == ("code", "go", "symbols", "internal", "auth")
    text = "---\ntags: [Architecture]\n---\n# Title\n\nSee #users and `#not`.\n"
    tags = of_type("docs/a.md", text, "documentation")[0].tags
    assert tags == ("documentation", "markdown", "docs", "a", "architecture", "users")
    assert of_type("docs/adr/1.md", "# One\n", "documentation")[0].tags == (
        *("documentation", "markdown", "docs", "adr", "1", "architecture"),
    )


def test_a_code_fence_is_never_split() -> None:
    fence = "```\n" + "\n\n".join(f"line {n}. And more! Really?" for n in range(60)) + "\n```"
    text = f"# Title\n\n{'Some words. ' * 60}\n\n{fence}\n\nAfter.\n"
    chunks = of_type("a.md", text, "documentation")
    assert len(chunks) > 1
    assert sum(fence in chunk.text for chunk in chunks) == 1
    assert all(chunk.text.count("```") % 2 == 0 for chunk in chunks)


def test_a_heading_inside_a_fence_begins_no_section() -> None:
    text = "# Title\n\n```sh\n## no heading\n```\n"
    assert len(of_type("a.md", text, "documentation")) == 1


def test_split_sections_overlap_and_keep_every_sentence_end() -> None:
    paragraphs = [f"Paragraph {n} ends here." for n in range(60)]
    chunks = of_type("a.md", "# Title\n\n" + "\n\n".join(paragraphs) + "\n", "documentation")
    assert len(chunks) > 1
    for before, after in pairwise(chunks):
        assert after.start_line <= before.end_line
        assert after.start_line > before.start_line
    together = "\n".join(chunk.text for chunk in chunks)
    assert all(paragraph in together for paragraph in paragraphs)


def test_later_pieces_of_a_section_say_the_headings_above() -> None:
    text = "# Guide\n\n## Install\n\n" + "\n\n".join(["words " * 30] * 6)
    chunks = of_type("a.md", text, "documentation")
    assert all(chunk.text.startswith("Guide > Install\n") for chunk in chunks)
    assert chunks[-1].metadata["headings"] == ["Guide", "Install"]


def test_a_bare_heading_is_no_chunk_of_its_own() -> None:
    chunks = of_type("a.md", "# Guide\n\n## Install\n\nwords\n", "documentation")
    assert [chunk.start_line for chunk in chunks] == [1]


def test_restructured_text_is_cut_by_its_headings_and_called_so() -> None:
    chunks = of_type("a.rst", "Title\n=====\n\nOne.\n\nSub\n---\n\nTwo.\n", "documentation")
    assert [chunk.metadata["headings"] for chunk in chunks] == [["Title"], ["Title", "Sub"]]
    assert chunks[0].tags == ("documentation", "rst", "a")


def test_a_large_class_is_split_into_its_members_with_its_line_as_context() -> None:
    methods = "".join(
        f"\n    def method_{n}(self):\n        return {n} * {'9' * 60}\n" for n in range(9)
    )
    source = f'class Big(Base):\n    """{"All of it. " * 12}"""\n{methods}'
    chunks = of_type("a.py", source, "definitions", SMALL)
    assert chunks[0].metadata["names"] == ["Big"]
    assert "# In " not in chunks[0].text
    assert all("# In class Big(Base):\n" in chunk.text for chunk in chunks[1:])
    names = [name for chunk in chunks for name in chunk.metadata["names"]]
    assert names == ["Big", *(f"Big.method_{n}" for n in range(9))]


def test_a_short_head_of_a_large_class_goes_with_its_first_member() -> None:
    methods = "".join(f"    def m{n}(self):\n        return {'9' * 90}\n\n" for n in range(5))
    chunks = of_type("a.py", f"class Big:\n{methods}", "definitions", SMALL)
    assert chunks[0].metadata["names"][:2] == ["Big", "Big.m0"]
    assert chunks[0].start_line == 1


def test_a_block_comment_one_line_above_belongs_to_the_definition() -> None:
    source = "var a = 1;\n\n/**\n * Starts it.\n */\n\napp.start = function () {\n  go();\n};\n"
    [start] = of_type("a.js", source, "definitions")
    assert "Starts it." in start.text


def test_a_licence_is_not_the_comment_of_the_first_definition() -> None:
    source = "/* Licence. */\n\nfunction start() {\n  go();\n}\n"
    texts = [chunk.text for chunk in of_type("a.js", source, "definitions")]
    assert any("start" in text and "Licence" not in text for text in texts)


def test_a_long_function_is_split_with_its_signature_as_context() -> None:
    body = "\n".join(f"    value_{n} = compute({n})" for n in range(60))
    chunks = of_type("a.py", f"def long(start):\n{body}\n", "definitions", SMALL)
    assert len(chunks) > 1
    assert all("# In def long(start):\n" in chunk.text for chunk in chunks[1:])
    assert all(len(chunk.text) < 400 for chunk in chunks)


def test_constants_of_a_class_are_data() -> None:
    java = "class A {\n  public static final int MAX = 5;\n  int size;\n}\n"
    [data] = of_type("A.java", java, "data")
    assert data.metadata["names"] == ["A.MAX"]


def test_local_variables_are_no_data() -> None:
    assert not of_type("a.ts", "function f() {\n  const LIMIT = 1;\n  return LIMIT;\n}\n", "data")


def test_decorated_methods_and_nested_classes_are_symbols() -> None:
    source = "class A:\n    class B:\n        @property\n        def c(self): ...\n"
    [symbols] = of_type("a.py", source, "symbols")
    assert "A.B (class)" in symbols.text
    assert "A.B.c(self)" in symbols.text


def test_a_use_of_a_struct_is_no_type() -> None:
    [symbols] = of_type("a.c", "struct a;\nint f(struct a* x) { return 0; }\n", "symbols")
    assert symbols.metadata["types_count"] == 0


def test_a_cpp_header_is_parsed_as_cpp() -> None:
    [symbols] = of_type("a.h", "class A {\n public:\n  int b() { return 1; }\n};\n", "symbols")
    assert symbols.language == "cpp"
    assert "A (class)" in symbols.text


def test_files_of_many_rows_are_parsed() -> None:
    """Reading `Node.start_point` of tree-sitter 0.26.0 ended the process from row 257 on."""
    source = "".join(f"def f_{n}():\n    return {n}\n\n\n" for n in range(2000))
    symbols = of_type("a.py", source, "symbols")
    assert symbols[0].metadata["functions_count"] == 2000


def test_moved_code_has_the_same_content_hash() -> None:
    moved = b"package auth\n\n\n\n" + GO[len(b"package auth\n") :]
    before = {c.id: c for c in cut("a.go", GO).chunks if "names" in c.metadata}
    after = {c.id: c for c in cut("a.go", moved).chunks}
    assert before
    for key, chunk in before.items():
        assert after[key].text != chunk.text
        assert after[key].content_hash == chunk.content_hash


def test_what_the_grammar_cannot_read_is_still_cut() -> None:
    chunked = cut("a.kt", ")))) ]]]] class class\nwords to find\n" * 3)
    assert any("words to find" in chunk.text for chunk in chunked.chunks)


def test_a_blank_file_has_no_chunks() -> None:
    assert cut("a.py", "\n \n").chunks == ()


def test_a_script_without_extension_is_known_by_its_first_line() -> None:
    assert of_type("run", "#!/usr/bin/env python3\ndef main(): ...\n", "symbols")


def test_crlf_and_byte_order_mark_are_not_in_the_text() -> None:
    chunks = of_type("a.py", b"\xef\xbb\xbfdef a():\r\n    return 1\r\n", "definitions")
    assert chunks[0].text == "# Lines 1-2\ndef a():\n    return 1"
