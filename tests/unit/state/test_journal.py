import sqlite3
from pathlib import Path

import pytest

from cortex.errors import Unavailable
from cortex.state.journal import Journal
from cortex.state.ledger import Fault
from fakes import CountedIds, FakeClock

pytestmark = pytest.mark.anyio


def opened(path: Path) -> Journal:
    return Journal.open(str(path), "audit", FakeClock(), CountedIds())[0]


def tamper(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for verb in ("update", "delete"):
        connection.execute(f"DROP TRIGGER IF EXISTS ledger_audit_no_{verb}")
    connection.execute(statement, values)
    connection.close()


async def test_a_new_journal_says_that_it_was_created(tmp_path: Path) -> None:
    journal = opened(tmp_path / "audit.db")
    (first,) = await journal.after(0, 10)
    assert (first.seq, first.kind, first.at) == (1, "created", "2026-01-02T03:04:05.678Z")
    assert first.body == {"chain": "id-1"}
    assert journal.chain == "id-1"
    journal.close()


async def test_a_journal_goes_on_where_it_was(tmp_path: Path) -> None:
    journal = opened(tmp_path / "audit.db")
    await journal.append("outcome", {"n": 1})
    journal.close()
    journal = opened(tmp_path / "audit.db")
    await journal.append("outcome", {"n": 2})
    assert [r.kind for r in await journal.after(0, 10)] == ["created", "outcome", "outcome"]
    assert journal.chain == "id-1"
    assert await journal.length() == 3
    assert await journal.verify() == []
    journal.close()


async def test_the_journal_of_a_damaged_file_begins_by_saying_so(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    path.write_bytes(b"not a database" * 100)
    journal, moved = Journal.open(str(path), "audit", FakeClock(), CountedIds())
    assert moved is not None
    (first,) = await journal.after(0, 10)
    assert first.kind == "restarted"
    assert first.body == {
        "chain": "id-1",
        "moved": moved.path,
        "sha256": moved.sha256,
        "reason": "file is not a database",
    }
    journal.close()


async def test_records_are_read_in_pieces(tmp_path: Path) -> None:
    journal = opened(tmp_path / "audit.db")
    for n in range(5):
        await journal.append("outcome", {"n": n})
    assert [r.seq for r in await journal.after(2, 3)] == [3, 4, 5]
    assert await journal.after(6, 3) == []
    journal.close()


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b"5", b"\xff\xfe", b"[" * 2000 + b"]" * 2000])
async def test_a_chain_whose_first_record_was_changed_is_opened_and_named_broken(
    tmp_path: Path, body: bytes
) -> None:
    path = tmp_path / "audit.db"
    opened(path).close()
    tamper(path, "UPDATE ledger_audit SET body = CAST(? AS TEXT) WHERE seq = 1", body)
    journal = opened(path)
    assert journal.chain == "unknown"
    await journal.append("outcome", {})
    assert [fault.seq for fault in await journal.verify()] == [1]
    journal.close()


async def test_a_chain_whose_records_are_gone_is_opened_and_named_broken(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    opened(path).close()
    tamper(path, "DELETE FROM ledger_audit")
    journal = opened(path)
    assert journal.chain == "unknown"
    assert await journal.verify() == [Fault(1, "missing: the ledger had 1 records")]
    journal.close()


async def test_a_journal_that_forgot_its_newest_record_does_not_write_over_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.db"
    journal = opened(path)
    await journal.append("outcome", {})
    tamper(path, "UPDATE ledger_audit_head SET seq = 1")
    with pytest.raises(Unavailable, match="append-only"):
        await journal.append("outcome", {})
    journal.close()
    tamper(path, "DELETE FROM ledger_audit_head")
    with pytest.raises(Unavailable, match="append-only"):
        opened(path)


async def test_a_journal_without_room_for_its_first_record_does_not_open(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ledger_audit_head (another TEXT)")
    connection.close()
    with pytest.raises(Unavailable, match="cannot be used"):
        opened(path)
