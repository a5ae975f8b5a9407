from dataclasses import replace

import pytest

from code_chunks import chunk
from cortex.toolsets.code.terms import Symbol, defined_names, file_stem, path_terms, read_query


@pytest.mark.parametrize(
    ("query", "symbols"),
    [
        ("HTTPAdapter", [Symbol("HTTPAdapter", is_alone=True)]),
        ("Sinatra::Base", [Symbol("Base", is_alone=True)]),
        ("parse()", [Symbol("parse", is_alone=True)]),
        ("how does get_user work", [Symbol("get_user", is_alone=False)]),
        ("where is app.handle called", [Symbol("handle", is_alone=False)]),
        ("how are sessions kept", []),
        ("what is JSON", []),
    ],
)
def test_names_in_a_query_are_told_from_words(query: str, symbols: list[Symbol]) -> None:
    assert list(read_query(query).symbols) == symbols


def test_function_words_are_no_content_unless_there_is_nothing_else() -> None:
    assert read_query("how is the cache filled").content == {"cach", "fill"}
    assert read_query("who is it").content == {"who", "is", "it"}


def test_the_indexer_says_what_a_chunk_defines() -> None:
    listed = chunk("a.py", "class Other: ...", "Session.request", "Session.request", "close")
    assert defined_names(listed) == ("request", "close")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("// (lines 1-3)\nfunc (h *Handler) ServeHTTP(w Writer) { ... }", ("ServeHTTP",)),
        ("class Session(Base):\n    def request(self): ...", ("Session", "request")),
        ("defmodule Plug.Router do", ("Router",)),
        ("int uv_run(loop* l, mode m) {", ("uv_run",)),
        ("nvm_alias() {", ("nvm_alias",)),
        ("    public static String toJson(Object o) {", ("toJson",)),
        ("exports.query = function (x) {", ("query",)),
        ("runX :: XConf -> X a -> IO a", ("runX",)),
    ],
)
def test_files_of_project_cortex_are_read_for_definitions(
    text: str, names: tuple[str, ...]
) -> None:
    without = replace(chunk("a.x", text), metadata={"file_path": "a.x"})
    assert set(names) <= set(defined_names(without))


def test_documentation_defines_nothing() -> None:
    assert defined_names(chunk("a.md", "def x(): ...", "x", chunk_type="documentation")) == ()


def test_a_file_that_every_folder_has_takes_the_name_of_its_folder() -> None:
    assert "auth" in path_terms("src/auth/__init__.py").stem
    assert path_terms("src/auth/login_form.py").stem == {"login_form", "login", "form"}
    assert path_terms("src/auth/login.py").folders == {"src", "auth"}
    assert path_terms("src/auth/login_form.py").parts == {"login", "form"}
    assert path_terms("Makefile").parts == {"makefil"}


def test_the_stem_of_a_file_ends_at_its_first_dot() -> None:
    assert file_stem("src/session.test.ts") == "session"
    assert file_stem(".env") == ".env"
