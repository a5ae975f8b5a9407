from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortex.toolsets.conversations.documents import ROW, Documents, Filters
from cortex.toolsets.conversations.ingest.values import POSITION_BITS, session_hash
from cortex.toolsets.conversations.ranking import EventClass

NAMES = {11: "claude-code", 12: "codex", 21: "message", 22: "reasoning", 31: "/a/b", 32: "/a/bc"}
ALL = tuple(int(each) for each in EventClass)


def rows(*documents: dict[str, Any]) -> NDArray[Any]:
    made = np.zeros(len(documents), ROW)
    for number, document in enumerate(documents):
        plain: dict[str, Any] = {
            "batch": 1,
            "session": session_hash("one"),
            "class": 2,
            "doc_len": 5,
            "harness": 11,
            "event_kind": 21,
            "project": 31,
        }
        for name, value in (plain | document).items():
            made[name][number] = value
    return made


def doc_id(stream: int, place: int) -> int:
    return (stream << POSITION_BITS) | place


@given(
    st.lists(
        st.lists(st.integers(0, 40), unique=True, max_size=8).map(sorted), min_size=1, max_size=4
    )
)
def test_documents_that_came_one_by_one_are_those_that_came_at_once(
    batches: list[list[int]],
) -> None:
    seen: set[int] = set()
    pieces = []
    for number, batch in enumerate(batches, 1):
        fresh = [n for n in batch if n not in seen]
        seen.update(fresh)
        pieces.append(
            rows(
                *(
                    {
                        "doc_id": doc_id(n % 3, n),
                        "batch": number,
                        "session": session_hash(str(n % 5)),
                        "position": n,
                        "doc_len": n + 1,
                    }
                    for n in fresh
                )
            )
        )
    grown = Documents()
    for piece in pieces:
        grown = grown.with_rows(piece, NAMES)
    whole = Documents().with_rows(np.concatenate(pieces), NAMES)
    assert (grown.ranked, grown.words, grown.sessions) == (
        whole.ranked,
        whole.words,
        whole.sessions,
    )
    for name in ("doc_id", "doc_len", "position", "class"):
        assert grown.columns[name].tolist() == whole.columns[name].tolist()
    assert sorted(grown.session_words.tolist()) == sorted(whole.session_words.tolist())
    assert grown.keys.tolist() == whole.keys.tolist()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [1, 2, 3]),
        ({"session_id": "two"}, [2]),
        ({"session_id": "nobody"}, []),
        ({"harness": "codex"}, [2]),
        ({"harness": "nobody"}, []),
        ({"event_kinds": ("reasoning",)}, [3]),
        ({"project": "/a/b"}, [1, 3]),
        ({"project": "/a/b/"}, [1, 3]),
        ({"project": "/a"}, [1, 2, 3]),
        ({"since": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)}, [2, 3]),
        ({"until": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)}, [1]),
        ({"classes": (int(EventClass.TITLE),)}, [3]),
    ],
)
def test_filters_keep_what_they_name(filters: dict[str, Any], expected: list[int]) -> None:
    documents = Documents().with_rows(
        rows(
            {"doc_id": 1, "at_ms": 1000},
            {
                "doc_id": 2,
                "at_ms": 2000,
                "session": session_hash("two"),
                "harness": 12,
                "project": 32,
            },
            {"doc_id": 3, "at_ms": 3000, "event_kind": 22, "class": int(EventClass.TITLE)},
        ),
        NAMES,
    )
    wanted: dict[str, Any] = {"classes": ALL, **filters}
    keep = documents.passing(np.arange(3), Filters(**wanted))
    assert documents.columns["doc_id"][keep].tolist() == expected


def test_neighbours_are_ranked_events_of_the_same_stream() -> None:
    documents = Documents().with_rows(
        rows(
            {"doc_id": doc_id(1, 0), "position": 1},
            {"doc_id": doc_id(1, 1), "class": int(EventClass.TOOL_CALL)},
            {"doc_id": doc_id(1, 2), "position": 2},
            {"doc_id": doc_id(2, 0), "position": 1},
        ),
        NAMES,
    )
    after, has_after = documents.neighbours(np.arange(4), 1)
    before, has_before = documents.neighbours(np.arange(4), -1)
    assert has_after.tolist() == [True, False, False, False]
    assert after[0] == 2
    assert has_before.tolist() == [False, False, True, False]
    assert before[2] == 0


def test_documents_that_are_not_there_are_told_apart() -> None:
    places, is_known = Documents().places(np.array([5], np.uint64))
    assert (len(places), is_known.tolist()) == (1, [False])
    documents = Documents().with_rows(rows({"doc_id": 5}, {"doc_id": 9}), NAMES)
    places, is_known = documents.places(np.array([9, 7, 99], np.uint64))
    assert (places[0], is_known.tolist()) == (1, [True, False, False])
