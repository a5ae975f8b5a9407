"""Search and open over a small corpus, on both engines, checked by other arithmetic."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cortex.clock import RandomIds, SystemClock
from cortex.errors import InvalidParams
from cortex.settings.models import Bm25Settings, IngestSettings, RedactionSettings
from cortex.store.engine import Engine
from cortex.store.migrate import migrate
from cortex.text.terms import query_terms, term_counts
from cortex.toolsets.conversations.answers import open_answer, search_answer
from cortex.toolsets.conversations.ingest.service import IngestService
from cortex.toolsets.conversations.library import Library
from cortex.toolsets.conversations.queries import ConversationQueries, key_of
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.service import ConversationsService, Found, Search

pytestmark = pytest.mark.anyio

ALPHA = [
    ("user", "The connection pool times out when the database restarts"),
    ("assistant", "I will look at the pool and its timeout settings"),
    ("assistant", "The retry loop never gives up: the timeout is counted from the first attempt"),
    ("user", "continue"),
    ("user", "continue"),
]
BETA = [
    ("user", "Rename getUserName to get_user_name in src/app/main.py"),
    ("assistant", "Renamed it everywhere, the tests pass"),
]
COMPLETE = {"complete": True, "files_known": 2, "files_done": 2}


def claude_session(session_id: str, said: Sequence[tuple[str, str]], day: int, cwd: str) -> str:
    lines = []
    for number, (role, text) in enumerate(said):
        content: Any = text if role == "user" else [{"type": "text", "text": text}]
        lines.append(
            json.dumps(
                {
                    "type": role,
                    "uuid": f"{session_id}-{number}",
                    "sessionId": session_id,
                    "cwd": cwd,
                    "timestamp": f"2026-01-{day:02d}T10:00:{number:02d}.000Z",
                    "message": {"role": role, "content": content},
                }
            )
        )
    return "\n".join(lines) + "\n"


class Bench:
    """A store with two sessions in it, and what answers about them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def fill(self, folder: Path) -> None:
        (folder / "a.jsonl").write_text(claude_session("alpha", ALPHA, 1, "/srv/alpha"))
        (folder / "b.jsonl").write_text(claude_session("beta", BETA, 2, "/srv/beta"))
        await self.read(folder)

    async def read(self, folder: Path) -> None:
        ingest = IngestService(
            self.engine,
            IngestSettings(sources=()),
            Redactor(RedactionSettings()),
            SystemClock(),
            lambda: None,
        )
        await ingest.read([str(folder)], "claude-code", lambda _: None)

    def service(self, **settings: Any) -> ConversationsService:
        return ConversationsService(
            ConversationQueries(self.engine),
            Bm25Settings(**settings),
            SystemClock(),
            RandomIds(),
            preview_chars=320,
        )

    async def search(self, query: str, *, ranking: str = "full", **more: Any) -> Found:
        wanted: dict[str, Any] = {"limit": 25, "min_score": 0.0, "min_should_match": 1, **more}
        return await self.service(ranking=ranking).search(Search(query=query, **wanted))


@pytest.fixture
async def bench(engine: Engine, tmp_path: Path) -> Bench:
    await migrate(engine)
    folder = tmp_path / "sessions"
    folder.mkdir()
    made = Bench(engine)
    await made.fill(folder)
    return made


def bm25_by_hand(query: str, text: str) -> float:
    """The formula of the seed, written down once more, over the same words."""
    texts = [said for _, said in ALPHA + BETA]
    counted = [term_counts(t) for t in texts]
    average = sum(length for _, length in counted) / len(texts)
    counts, length = term_counts(text)
    total = 0.0
    for term in query_terms(query, 32):
        df = sum(1 for c, _ in counted if term in c)
        if df and counts[term]:
            idf = max(0.0, math.log(1 + (len(texts) - df + 0.5) / (df + 0.5)))
            tf = counts[term]
            total += idf * tf * 2.2 / (tf + 1.2 * (1 - 0.75 + 0.75 * length / average))
    return total


@pytest.mark.parametrize("ranking", ["full", "plain"])
@pytest.mark.parametrize("query", ["pool timeout", "the timeout of the retry loop", "rename"])
async def test_bm25_of_a_hit_is_the_formula(bench: Bench, query: str, ranking: str) -> None:
    found = await bench.search(query, ranking=ranking)
    assert found.hits
    for hit in found.hits:
        expected = bm25_by_hand(query, hit.event["text_content"])
        assert hit.bm25 == pytest.approx(expected, abs=1e-9)
        if ranking == "plain":
            assert hit.score == hit.bm25


async def test_best_comes_first_and_other_forms_are_found(bench: Bench) -> None:
    found = await bench.search("retries in loops")
    assert found.hits[0].event["text_content"].startswith("The retry loop")
    renamed = await bench.search("user name renaming")
    assert renamed.hits[0].event["session_id"] == "beta"


async def test_two_equal_prompts_are_two_events_and_one_hit(bench: Bench) -> None:
    found = await bench.search("continue")
    assert len(found.hits) == 1
    rows = await bench.engine.query("SELECT event_uid FROM events WHERE text_content = 'continue'")
    assert len({row["event_uid"] for row in rows}) == 2


@pytest.mark.parametrize(
    ("narrowed", "sessions"),
    [
        ({"session_id": "beta"}, {"beta"}),
        ({"project": "/srv/alpha"}, {"alpha"}),
        ({"since": datetime(2026, 1, 2, tzinfo=UTC)}, {"beta"}),
        ({"until": datetime(2026, 1, 2, tzinfo=UTC)}, {"alpha"}),
        ({"harness": "claude-code"}, {"alpha", "beta"}),
        ({"harness": "codex"}, set[str]()),
        ({"event_kinds": ("reasoning",)}, set[str]()),
    ],
)
async def test_filters_narrow_and_keep_global_statistics(
    bench: Bench, narrowed: dict[str, Any], sessions: set[str]
) -> None:
    query = "the"
    everywhere = {h.event["event_uid"]: h.bm25 for h in (await bench.search(query)).hits}
    found = await bench.search(query, **narrowed)
    assert {hit.event["session_id"] for hit in found.hits} == sessions
    for hit in found.hits:
        assert hit.bm25 == pytest.approx(everywhere[hit.event["event_uid"]], abs=1e-12)


async def test_limits_and_thresholds_hold(bench: Bench) -> None:
    assert len((await bench.search("the", limit=2)).hits) == 2
    both = await bench.search("pool timeout", min_should_match=2)
    assert all(hit.matched_terms >= 2 for hit in both.hits)
    assert (await bench.search("pool", min_score=1000.0)).hits == []
    assert (await bench.search("nosuchword")).hits == []


@pytest.mark.parametrize("query", ["", "   "])
async def test_an_empty_query_is_refused(bench: Bench, query: str) -> None:
    with pytest.raises(InvalidParams, match="query cannot be empty"):
        await bench.search(query)


async def test_a_query_without_words_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidParams, match="no searchable terms"):
        await bench.search("!? .")


async def test_open_shows_the_window_and_stays_in_the_session(bench: Bench) -> None:
    hit = (await bench.search("retry loop")).hits[0]
    window = await bench.service().open(hit.event["event_uid"], 1, 200)
    assert [event["event_order"] for event in window.events] == [2, 3, 4, 5]
    assert {event["session_id"] for event in window.events} == {"alpha"}
    payload = open_answer(window, "full").payload
    assert [event["is_target"] for event in payload["events"]] == [False, True, False, False]
    assert payload["turn_seq"] == 1
    prose = open_answer(window, "prose").to_text()
    assert prose.startswith(f"Open event: {hit.event['event_uid']}\nSession: alpha\nTurn: 1\n")


async def test_open_of_an_unknown_uid_is_an_answer(bench: Bench) -> None:
    window = await bench.service().open("0" * 32, 3, 3)
    assert open_answer(window, "full").to_structured() == {
        "found": False,
        "event_uid": "0" * 32,
        "events": [],
    }
    assert open_answer(window, "prose").to_text().endswith("\nNot found.")


async def test_open_refuses_what_cannot_be_a_uid(bench: Bench) -> None:
    for uid, said in (("", "cannot be empty"), ("a b'", "unsupported characters")):
        with pytest.raises(InvalidParams, match=said):
            await bench.service().open(uid, 3, 3)


async def test_answers_have_the_shapes_of_the_contract(bench: Bench) -> None:
    found = await bench.search("connection pool")
    full = search_answer(found, "full", COMPLETE)
    assert set(full.payload) == {"query_id", "query", "terms", "stats", "coverage", "hits"}
    assert full.to_structured() == full.payload
    prose = search_answer(found, "prose", COMPLETE)
    assert prose.to_structured() is None
    lines = prose.to_text().splitlines()
    uid = found.hits[0].event["event_uid"]
    assert lines[0] == 'Search: "connection pool"'
    assert lines[4].startswith("1) session=alpha score=")
    assert lines[4].endswith(" kind=message role=user")
    assert lines[6:8] == [f"   event_uid: {uid}", f'   next: open(event_uid="{uid}")']


async def test_a_corpus_that_is_still_read_says_so(bench: Bench) -> None:
    reading = {"complete": False, "files_known": 9, "files_done": 2}
    answer = search_answer(await bench.search("nosuchword"), "prose", reading)
    assert "Still reading: 2 of 9 session files are in." in answer.to_text()
    assert answer.to_text().endswith("No hits.")


async def test_every_session_is_counted_in_the_statistics(bench: Bench) -> None:
    documents = await Library(ConversationQueries(bench.engine)).documents()
    words = Counter(
        {
            name: sum(term_counts(t)[1] for _, t in said)
            for name, said in (("a", ALPHA), ("b", BETA))
        }
    )
    assert documents.ranked == len(ALPHA + BETA)
    assert sorted(documents.session_words.tolist()) == sorted(words.values())


async def test_documents_that_were_removed_are_counted_no_more(bench: Bench) -> None:
    library = Library(ConversationQueries(bench.engine))
    before = await library.documents()
    session = int(
        (await bench.engine.query("SELECT min(session) AS s FROM search_documents"))[0]["s"]
    )
    await bench.engine.command(
        "DELETE FROM search_documents WHERE session = {session:UInt64}", {"session": session}
    )
    assert (await library.documents()) is before
    library.mark_stale()
    after = await library.documents()
    assert 0 < after.ranked < before.ranked
    assert after.sessions == before.sessions - 1


async def test_documents_that_came_are_added(bench: Bench, tmp_path: Path) -> None:
    library = Library(ConversationQueries(bench.engine))
    before = await library.documents()
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "c.jsonl").write_text(claude_session("gamma", BETA, 3, "/srv/gamma"))
    await bench.read(folder)
    library.mark_stale()
    after = await library.documents()
    assert after.ranked == before.ranked + len(BETA)
    assert after.sessions == before.sessions + 1


@pytest.mark.parametrize("term", ["timeout", "queri", "日本", "x" * 64])
async def test_a_term_has_the_key_that_the_store_gives_it(engine: Engine, term: str) -> None:
    found = await engine.query(
        "SELECT bitOr(bitAnd(xxHash64({term:String}), bitNot(toUInt64(1))), 1) AS key",
        {"term": term},
    )
    assert found[0]["key"] == key_of(term, is_ranked=True)
    assert key_of(term, is_ranked=False) == found[0]["key"] - 1
