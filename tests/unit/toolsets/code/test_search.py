import numpy as np
import pytest

from code_chunks import chunk, found, snapshot_of
from cortex.toolsets.code.ranking import in_order, shown
from cortex.toolsets.code.search import Filters
from cortex.toolsets.code.terms import read_query

FILLER = [
    chunk(f"lib/part{n}.py", f"def part{n}(): return other_{n} + thing", f"part{n}")
    for n in range(6)
]


def test_a_chunk_with_the_words_comes_before_one_without() -> None:
    project = snapshot_of(
        *FILLER,
        chunk("a.py", "def keep(cookies): store cookies on disk", "keep"),
        chunk("b.py", "def send(): write to a socket", "send"),
    )
    assert found(project, "how are cookies stored")[0] == "a.py"


def test_parts_of_identifiers_and_their_stems_are_words() -> None:
    project = snapshot_of(*FILLER, chunk("a.py", "retryPolicy = maxRetriesAllowed", "retryPolicy"))
    assert found(project, "retries")[0] == "a.py"


def test_the_definition_of_a_name_comes_before_its_mentions() -> None:
    mentions = "Session() Session() Session() Session() Session()"
    project = snapshot_of(
        *FILLER,
        chunk("use.py", f"def use(): {mentions}", "use"),
        chunk("state.py", "class Session: keeps what is known of a user for a while", "Session"),
    )
    assert found(project, "Session")[0] == "state.py"
    assert found(project, "pkg.Session")[0] == "state.py"


def test_a_definition_in_the_file_of_that_name_comes_before_one_elsewhere() -> None:
    body = "class Session: state of a user"
    project = snapshot_of(
        *FILLER, chunk("a/types.py", body, "Session"), chunk("b/sessions.py", body, "Session")
    )
    assert found(project, "Session")[:2] == ["b/sessions.py", "a/types.py"]


def test_a_path_that_says_the_query_lifts_its_chunks() -> None:
    body = "def run(): handle a timeout of a request"
    project = snapshot_of(*FILLER, chunk("a/misc.py", body), chunk("b/timeouts.py", body))
    assert found(project, "request timeout")[0] == "b/timeouts.py"


def test_a_file_whose_whole_name_is_said_comes_before_one_of_which_a_part_is() -> None:
    body = "struct of a request that the server got"
    project = snapshot_of(
        *FILLER, chunk("RequestBodyStream.py", body), chunk("Request.py", body), chunk("a.py", "x")
    )
    assert found(project, "the request type")[0] == "Request.py"


@pytest.mark.parametrize(
    "path",
    [
        "tests/cookies.py",
        "src/cookies_test.go",
        "examples/cookies.py",
        "vendor/cookies.py",
        "CookiesTest.java",
        "api/cookies.pb.go",
    ],
)
def test_what_copies_the_source_stands_below_it(path: str) -> None:
    body = "def cookies(): store cookies in a jar"
    project = snapshot_of(*FILLER, chunk(path, body, "cookies"), chunk("lib/jar.py", body, "jar"))
    assert found(project, "store cookies in a jar")[0] == "lib/jar.py"


def test_many_good_chunks_of_one_file_do_not_crowd_the_list() -> None:
    many = [chunk("big.py", f"cookie jar cookie {n}", part=n) for n in range(30)]
    project = snapshot_of(*FILLER, *many, chunk("small.py", "one cookie in a jar of glass"))
    assert "small.py" in found(project, "cookie jar", limit=3)


def test_filters_apply_before_the_ranking() -> None:
    code = [chunk(f"src/{n}.py", "database connection pool", part=n) for n in range(40)]
    data = [
        chunk(f"conf/{n}.toml", "pool size", chunk_type="data", tags=("code", "toml"), part=n)
        for n in range(15)
    ]
    project = snapshot_of(*code, *data)
    paths = found(project, "database connection settings", limit=15, chunk_types=("data",))
    assert len(paths) == 15
    assert {path.split("/")[0] for path in paths} == {"conf"}


def test_all_tags_must_be_there_in_any_order_and_case() -> None:
    project = snapshot_of(
        chunk("a.go", "func parse", tags=("code", "go")),
        chunk("b.py", "def parse", tags=("code", "python")),
        chunk("c.md", "how to parse go", tags=("documentation", "go"), chunk_type="documentation"),
    )
    assert found(project, "parse", tags=("go",)) == ["a.go", "c.md"]
    assert found(project, "parse", tags=("Go", "code")) == ["a.go"]
    assert found(project, "parse", tags=("go", "nothing")) == []


def test_several_chunk_types_are_one_or_the_other() -> None:
    project = snapshot_of(
        chunk("a.py", "auth handler", chunk_type="symbols"),
        chunk("b.py", "auth handler", chunk_type="definitions"),
        chunk("c.py", "auth handler", chunk_type="data"),
    )
    types = ("symbols", "definitions")
    assert sorted(found(project, "auth", chunk_types=types)) == ["a.py", "b.py"]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("src/**/*.py", ["src/a.py", "src/x/b.py"]),
        ("src/*.py", ["src/a.py"]),
        ("*.py", ["src/a.py", "src/x/b.py"]),
        ("src", ["src/a.py", "src/x/b.py", "src/x/c.ts"]),
        ("src/x/", ["src/x/b.py", "src/x/c.ts"]),
        ("b.??", ["src/x/b.py"]),
        ("[a]", []),
        ("none/**", []),
    ],
)
def test_a_path_is_a_glob_or_a_folder(pattern: str, paths: list[str]) -> None:
    project = snapshot_of(*(chunk(p, "word") for p in ("src/a.py", "src/x/b.py", "src/x/c.ts")))
    assert sorted(found(project, "word", path=pattern)) == paths


def test_without_filters_only_what_fits_is_found() -> None:
    project = snapshot_of(*FILLER)
    assert found(project, "zebra") == []
    assert len(found(project, "zebra", tags=("code",))) == len(FILLER)


def test_the_same_question_has_the_same_answer() -> None:
    chunks = [chunk(f"src/{n}.py", "the same text in all of them", part=n) for n in range(50)]
    first, second = snapshot_of(*chunks), snapshot_of(*chunks)
    assert found(first, "same text") == found(second, "same text")


def test_scores_lie_between_0_and_1_and_fall() -> None:
    project = snapshot_of(
        *FILLER, chunk("cookie.py", "class Cookie: a cookie, the cookie", "Cookie")
    )
    ranked = project.ranked(read_query("Cookie other thing"), None, Filters(), 10)
    scores = [shown(float(worth)) for worth in ranked.worth]
    assert all(0 < score < 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_an_empty_project_answers_nothing() -> None:
    assert found(snapshot_of(), "anything", path="*", tags=("x",)) == []


def test_vectors_find_what_no_word_does() -> None:
    axes = np.eye(384, dtype=np.float32)
    chunks = [chunk("a.py", "sign in", "enter"), chunk("b.py", "throw away", "drop"), *FILLER]
    vectors = {each.id: axes[n].tolist() for n, each in enumerate(chunks) if n != 5}
    project = snapshot_of(*chunks, vectors=vectors)
    assert project.vectors is not None
    assert project.vectors.is_there.tolist() == [n != 5 for n in range(len(chunks))]
    ranked = project.ranked(read_query("authentication"), axes[0], Filters(), 3)
    assert project.files.paths[int(project.file_of[ranked.chunk[0]])] == "a.py"
    assert ranked.parts["vector"][0] == 1.0


def test_each_further_chunk_of_a_file_counts_half() -> None:
    score = np.array([1.0, 0.9, 0.8, 0.5], dtype=np.float32)
    files = np.array([0, 0, 0, 1], dtype=np.int32)
    chunks, worth = in_order(score, files, 4)
    assert chunks.tolist() == [0, 3, 1, 2]
    assert worth.tolist() == pytest.approx([1.0, 0.5, 0.45, 0.2])
