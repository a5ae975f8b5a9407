import pytest

from cortex.text.terms import query_terms, stem, term_counts
from cortex.toolsets.conversations.snippet import snippet


def terms(text: str) -> set[str]:
    return set(term_counts(text)[0])


def test_words_of_the_seed_are_terms_in_lower_case() -> None:
    assert terms("Timeout in ClickHouse_2 at port 8123") >= {
        "timeout",
        "clickhouse_2",
        "port",
        "8123",
    }


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("getUserName", {"get", "user", "nam"}),
        ("HTTPServerError", {"http", "server", "error"}),
        ("snake_case_name", {"snak", "cas", "nam"}),
        ("src/app/main.py", {"src", "app", "main", "py"}),
        ("utf8Decoder", {"utf", "decoder"}),
    ],
)
def test_parts_of_identifiers_and_paths_are_found(text: str, parts: set[str]) -> None:
    assert terms(text) >= parts


@pytest.mark.parametrize(
    "words",
    [
        ("query", "queries"),
        ("render", "rendering", "rendered", "renders"),
        ("stop", "stopped", "stopping"),
        ("configure", "configured", "configures"),
        ("box", "boxes"),
        ("match", "matches"),
    ],
)
def test_forms_of_one_word_are_one_term(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


@pytest.mark.parametrize("word", ["status", "class", "bus", "v12", "go", "x_y"])
def test_words_that_only_look_like_forms_are_left_alone(word: str) -> None:
    assert stem(word) == word


def test_accents_are_folded_however_they_are_written() -> None:
    assert terms("Café") == terms("Cafe\u0301") == terms("cafe")


def test_chinese_japanese_and_korean_are_pairs_of_characters() -> None:
    assert terms("日本語") == {"日本", "本語"}
    assert terms("한국어") == {"한국", "국어"}


def test_other_scripts_are_words() -> None:
    assert terms("Привет мир") == {"привет", "мир"}


def test_length_counts_words_and_not_their_parts() -> None:
    counts, length = term_counts("getUserName failed twice, failed")
    assert length == 4
    assert counts["fail"] == 2


def test_a_query_has_each_term_once_and_not_too_many() -> None:
    assert query_terms("the Fix fixed the fix", 32) == ["the", "fix"]
    assert len(query_terms(" ".join(f"word{i}" for i in range(99)), 32)) == 32


def test_snippet_is_cut_around_the_match() -> None:
    text = "begin " * 200 + "the connection pool timed out here " + "end " * 200
    piece = snippet(text, query_terms("pool timed out", 32), 80)
    assert "pool timed out" in piece
    assert piece.startswith("…")
    assert piece.endswith("…")
    assert len(piece) <= 82


def test_snippet_of_a_short_text_is_the_text_on_one_line() -> None:
    assert snippet("a\n  b\tc", ["x"], 80) == "a b c"
