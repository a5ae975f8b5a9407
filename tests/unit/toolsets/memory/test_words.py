import pytest

from cortex.toolsets.memory.words import claim_key, query_terms, stem, terms


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("queries", "queri"),
        ("query", "queri"),
        ("boxes", "box"),
        ("stopped", "stop"),
        ("rendering", "render"),
        ("quickly", "quick"),
        ("use", "use"),
        ("bus", "bus"),
        ("sql", "sql"),
    ],
)
def test_forms_of_a_word_share_a_stem(word: str, root: str) -> None:
    assert stem(word) == root


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    assert terms("parseHttpHeader") == ["parsehttpheader", "pars", "http", "header"]
    assert "case" not in terms("the")
    assert terms("snake_case") == ["snake_case", "snak", "cas"]


def test_words_without_meaning_are_left_out_but_negations_are_not() -> None:
    assert terms("it is not the one") == ["not", "one"]
    assert terms("don't") == ["dont"]
    assert terms("Ada's notes") == ["ada", "not"] or terms("Ada's notes")[0] == "ada"


def test_a_question_of_stop_words_alone_is_still_a_question() -> None:
    assert query_terms("who is it", 8) == ["who", "is", "it"]
    assert query_terms("???", 8) == []


def test_other_scripts_are_words_too() -> None:
    assert terms("café") == ["caf"] or terms("café") == ["cafe"]
    assert terms("记忆库") == ["记忆", "忆库"]
    assert terms("库") == ["库"]
    assert terms("привет мир") == ["привет", "мир"]


def test_two_spellings_of_a_claim_have_one_key() -> None:
    assert claim_key("Use  pnpm, never npm.") == claim_key("use pnpm never NPM")
    assert claim_key("use pnpm") != claim_key("use npm")
