"""Which language a file is in, by its name or its first line."""

import re
from collections.abc import Mapping
from functools import cache

from cortex.toolsets.code.indexing.grammars import CPP, WITH_GRAMMAR
from cortex.toolsets.code.indexing.languages import Language


def _code(name: str, extensions: str, mark: str = "//", filenames: str = "") -> Language:
    blocks = (("/*", "*/"),) if mark == "//" else ()
    return Language(
        name=name,
        extensions=tuple(extensions.split()),
        filenames=tuple(filenames.split()),
        mark=mark,
        leads=(mark,),
        blocks=blocks,
    )


def _settings(name: str, extensions: str, mark: str = "#", filenames: str = "") -> Language:
    return Language(
        name=name,
        extensions=tuple(extensions.split()),
        filenames=tuple(filenames.split()),
        family="data",
        mark=mark,
        leads=(mark,),
        blocks=(),
    )


def _document(name: str, extensions: str, filenames: str = "") -> Language:
    return Language(
        name=name,
        extensions=tuple(extensions.split()),
        filenames=tuple(filenames.split()),
        family="documentation",
    )


MARKDOWN = _document("markdown", ".md .mdx .markdown .qmd .rmd")
RST = _document("rst", ".rst")
TEXT = _document(
    "text",
    ".txt .text .adoc .asciidoc .org .tex",
    "README LICENSE LICENCE COPYING NOTICE AUTHORS CHANGELOG CHANGES NEWS CONTRIBUTORS"
    " INSTALL TODO HISTORY MAINTAINERS CODEOWNERS",
)

WITHOUT_GRAMMAR = (
    _code("sql", ".sql", "--"),
    _code("html", ".html .htm .xhtml .jinja .jinja2 .j2 .erb .ejs .hbs .mustache .twig"),
    _code("css", ".css .scss .sass .less .styl"),
    _code("vue", ".vue"),
    _code("svelte", ".svelte .astro"),
    _code("protobuf", ".proto"),
    _code("graphql", ".graphql .gql", "#"),
    _code("thrift", ".thrift .avdl .fbs .capnp"),
    _code("dockerfile", ".dockerfile", "#", "Dockerfile Containerfile"),
    _code("make", ".mk .mak", "#", "Makefile makefile GNUmakefile Justfile justfile"),
    _code("cmake", ".cmake", "#", "CMakeLists.txt"),
    _code("groovy", ".groovy .gradle", "//", "Jenkinsfile"),
    _code("dart", ".dart"),
    _code("objective-c", ".m .mm"),
    _code("perl", ".pl .pm .t", "#"),
    _code("r", ".r .R", "#"),
    _code("julia", ".jl", "#"),
    _code("ocaml", ".ml .mli .mll .mly"),
    _code("fsharp", ".fs .fsi .fsx"),
    _code("visual-basic", ".vb .bas", "'"),
    _code("clojure", ".clj .cljs .cljc .edn", ";"),
    _code("lisp", ".el .lisp .scm .rkt", ";"),
    _code("erlang", ".erl .hrl", "%"),
    _code("nix", ".nix", "#"),
    _code("terraform", ".tf .tfvars .hcl", "#"),
    _code("powershell", ".ps1 .psm1 .psd1", "#"),
    _code("batch", ".bat .cmd", "REM"),
    _code("vim", ".vim", '"', ".vimrc"),
    _code("fish", ".fish", "#"),
    _code("awk", ".awk", "#"),
    _code("nim", ".nim", "#"),
    _code("crystal", ".cr", "#"),
    _code("solidity", ".sol"),
    _code("fortran", ".f90 .f95 .f03 .f", "!"),
    _code("assembly", ".s .S .asm", ";"),
    _code("verilog", ".v .sv .vhd"),
    _code("shader", ".glsl .vert .frag .hlsl .wgsl .metal"),
    _code("pascal", ".pas .pp .dpr"),
    _code("d", ".d"),
    _code("gleam", ".gleam"),
    _code("starlark", ".bzl .star", "#", "BUILD BUILD.bazel WORKSPACE"),
    _code("meson", ".meson", "#", "meson.build"),
    _settings("toml", ".toml"),
    _settings("yaml", ".yml .yaml"),
    _settings("json", ".json .jsonc .json5 .webmanifest", "//"),
    _settings("ini", ".ini .cfg .conf .properties .editorconfig", "#", ".editorconfig .flake8"),
    _settings("xml", ".xml .csproj .fsproj .vbproj .props .targets .plist .xsd .pom", "#"),
    MARKDOWN,
    RST,
    TEXT,
)

_SHEBANG = re.compile(rb"#![^\n]*?\b(python|bash|sh|zsh|node|ruby|perl|php|lua|elixir)[\d.]*\b")
_INTERPRETERS: Mapping[bytes, str] = {
    b"python": ".py",
    b"bash": ".sh",
    b"sh": ".sh",
    b"zsh": ".sh",
    b"node": ".js",
    b"ruby": ".rb",
    b"perl": ".pl",
    b"php": ".php",
    b"lua": ".lua",
    b"elixir": ".exs",
}
# A header of C++ is told from one of C by words that C does not have.
_CPP_WORDS = re.compile(
    rb"(?m)^\s*(?:class\s+\w+|namespace\s+\w|template\s*<|using\s+\w+\s*=|public:|private:)"
)


@cache
def _by_extension() -> dict[str, Language]:
    every = (*WITH_GRAMMAR, *WITHOUT_GRAMMAR)
    return {extension: language for language in every for extension in language.extensions}


@cache
def _by_filename() -> dict[str, Language]:
    every = (*WITH_GRAMMAR, *WITHOUT_GRAMMAR)
    return {name: language for language in every for name in language.filenames}


def language_named(path: str) -> Language | None:
    """Return the language of a path by its name alone."""
    name = path.rpartition("/")[2]
    if (known := _by_filename().get(name)) is not None:
        return known
    stem, dot, rest = name.rpartition(".")
    extension = f"{dot}{rest}" if stem else ""
    languages = _by_extension()
    return languages.get(extension) or languages.get(extension.lower())


def may_be_script(path: str) -> bool:
    """Tell whether the first line must say what the file is: a name without extension."""
    return "." not in path.rpartition("/")[2]


def language_of(path: str, head: bytes) -> Language | None:
    """Return the language of a file, looking at its first bytes where the name is not enough."""
    language = language_named(path)
    if language is None:
        if not may_be_script(path) or (match := _SHEBANG.match(head)) is None:
            return None
        return _by_extension()[_INTERPRETERS[match[1]]]
    if path.endswith(".h") and _CPP_WORDS.search(head):
        return CPP
    return language
