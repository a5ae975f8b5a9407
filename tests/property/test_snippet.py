"""A snippet of plain text is the one that looking at every word would give."""

from hypothesis import given
from hypothesis import strategies as st

from cortex.text.terms import query_terms, word_terms
from cortex.toolsets.conversations import snippet as module
from cortex.toolsets.conversations.snippet import snippet

WORDS = st.sampled_from(
    "query queries Rendering stopped getUserName snake_case_name boxes a.py src/main the of it"
    " configured timeout TIMEOUT x retried matches".split()
)


@given(st.lists(WORDS, max_size=120), st.lists(WORDS, min_size=1, max_size=3))
def test_the_words_looked_at_are_all_that_have_a_term(text: list[str], query: list[str]) -> None:
    wanted = frozenset(query_terms(" ".join(query), 32))
    whole = " ".join(text)
    quick = [
        word
        for _, word in module._words(whole, wanted)  # pyright: ignore[reportPrivateUsage]
        if wanted.intersection(word_terms(word))
    ]
    slow = [w for w in module._WORD.findall(whole) if wanted.intersection(word_terms(w))]  # pyright: ignore[reportPrivateUsage]
    assert quick == slow


@given(st.text(max_size=600), st.text(max_size=20), st.integers(40, 320))
def test_any_text_gives_a_line_within_bounds(text: str, query: str, max_chars: int) -> None:
    shown = snippet(text, query_terms(query, 32), max_chars)
    assert len(shown) <= max_chars + 2
    assert "\n" not in shown
