"""Whatever a statement holds in texts, names and comments, a file of them is cut where it ends."""

from hypothesis import given
from hypothesis import strategies as st

from cortex.store.sql import split_statements

ANYTHING = st.text(st.characters(codec="utf-8"), max_size=20)


def quoted(mark: str) -> st.SearchStrategy[str]:
    return ANYTHING.map(lambda s: mark + s.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark)


LINE_COMMENT = ANYTHING.map(lambda s: "-- " + s.replace("\n", " ") + "\n")
BLOCK_COMMENT = ANYTHING.map(lambda s: "/* " + s.replace("/", " ") + " */")
PIECES = st.one_of(
    st.sampled_from(["SELECT", "x", "1", ",", "(", ")", "= 'a''b'"]),
    quoted("'"),
    quoted("`"),
    quoted('"'),
    LINE_COMMENT,
    BLOCK_COMMENT,
)
STATEMENTS = st.lists(PIECES, max_size=8).map(lambda pieces: " ".join(["SELECT", *pieces, "1"]))


@given(st.lists(STATEMENTS, min_size=1, max_size=5))
def test_joined_statements_are_cut_apart_again(statements: list[str]) -> None:
    assert split_statements(" ;\n".join(statements)) == statements
