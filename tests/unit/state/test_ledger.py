import hashlib
import json
import sqlite3
from collections.abc import Iterator

import pytest
import rfc8785

from cortex.state.ledger import GENESIS, Ledger, canonical_json, digest

AT = "2026-01-02T03:04:05.678Z"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    LEDGER.create(connection)
    for n in range(1, 7):
        LEDGER.append(connection, at=AT, kind="note", body={"n": n, "text": f"ä{n}", "x": 1e21})
    yield connection
    connection.close()


LEDGER = Ledger("t")


def tamper(connection: sqlite3.Connection, *statements: str) -> None:
    for verb in ("update", "delete"):
        connection.execute(f"DROP TRIGGER ledger_t_no_{verb}")
    for statement in statements:
        connection.execute(statement)


def named(connection: sqlite3.Connection) -> dict[int, list[str]]:
    faults: dict[int, list[str]] = {}
    for fault in LEDGER.verify(connection):
        faults.setdefault(fault.seq, []).append(fault.problem)
    return faults


def test_what_was_appended_verifies(connection: sqlite3.Connection) -> None:
    assert LEDGER.verify(connection) == []


def test_an_empty_ledger_verifies() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    LEDGER.create(connection)
    assert LEDGER.verify(connection) == []
    assert LEDGER.head(connection) == (0, GENESIS)
    assert LEDGER.after(connection, 0, 10) == []
    connection.close()


def test_a_record_is_hashed_whole_with_the_hash_before_it(connection: sqlite3.Connection) -> None:
    first, second = LEDGER.after(connection, 0, 2)
    assert first.prev_hash == GENESIS
    assert second.prev_hash == first.hash
    whole = {"seq": 2, "at": AT, "kind": "note", "body": second.body, "prev_hash": first.hash}
    assert second.hash == digest(whole)
    assert second.canonical() == rfc8785.dumps(whole)


def test_the_first_hash_is_the_one_this_version_always_wrote() -> None:
    """A change of the format would make every ledger out there look broken."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    LEDGER.create(connection)
    record = LEDGER.append(connection, at=AT, kind="note", body={"b": [1, 2.5], "a": "ä"})
    canonical = (
        '{"at":"2026-01-02T03:04:05.678Z","body":{"a":"ä","b":[1,2.5]},"kind":"note",'
        f'"prev_hash":"{"0" * 64}","seq":1}}'
    )
    assert record.canonical() == canonical.encode()
    connection.close()


def test_a_large_float_is_read_back_as_it_was_written(connection: sqlite3.Connection) -> None:
    """Canonical JSON spells 2^53 as an integer, and knows no integer that large."""
    body = {"x": [2.0**53, -1e20, 1e21]}
    record = LEDGER.append(connection, at=AT, kind="note", body=body)
    assert LEDGER.after(connection, record.seq - 1, 1)[0].body == body
    assert LEDGER.verify(connection) == []


def test_canonical_json_has_one_spelling() -> None:
    assert canonical_json({"b": 1.0, "a": "\u20ac"}) == '{"a":"€","b":1}'.encode()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_t SET kind = 'x'",
        "DELETE FROM ledger_t WHERE seq = 3",
        "DELETE FROM ledger_t",
        "INSERT OR REPLACE INTO ledger_t VALUES (3, '', '', '{}', '', '')",
    ],
)
def test_what_was_written_cannot_be_changed(connection: sqlite3.Connection, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    assert LEDGER.verify(connection) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("body", """'{"n":99}'"""),
        ("kind", "'other'"),
        ("at", "'2026-01-02T03:04:05.679Z'"),
    ],
)
def test_a_changed_field_is_named(connection: sqlite3.Connection, column: str, value: str) -> None:
    tamper(connection, f"UPDATE ledger_t SET {column} = {value} WHERE seq = 3")
    assert named(connection) == {3: ["was changed after it was written"]}


def test_every_broken_record_is_named_not_only_the_first(connection: sqlite3.Connection) -> None:
    tamper(connection, "UPDATE ledger_t SET kind = 'other' WHERE seq IN (2, 4, 5)")
    assert list(named(connection)) == [2, 4, 5]


def test_swapped_records_are_named(connection: sqlite3.Connection) -> None:
    tamper(
        connection,
        "UPDATE ledger_t SET seq = 99 WHERE seq = 3",
        "UPDATE ledger_t SET seq = 3 WHERE seq = 4",
        "UPDATE ledger_t SET seq = 4 WHERE seq = 99",
    )
    assert {3, 4} <= set(named(connection))
    assert 2 not in named(connection)
    assert 6 not in named(connection)


def test_a_record_deleted_from_the_middle_is_named(connection: sqlite3.Connection) -> None:
    tamper(connection, "DELETE FROM ledger_t WHERE seq = 3")
    assert named(connection) == {3: ["missing: the next record is 4"]}


def test_records_deleted_from_the_middle_are_named_by_both_ends(
    connection: sqlite3.Connection,
) -> None:
    tamper(connection, "DELETE FROM ledger_t WHERE seq IN (2, 3, 4)")
    assert named(connection) == {2: ["missing: the next record is 5"]}


def test_a_deleted_tail_is_named(connection: sqlite3.Connection) -> None:
    tamper(connection, "DELETE FROM ledger_t WHERE seq > 4")
    assert named(connection) == {5: ["missing: the ledger had 6 records"]}


def test_a_deleted_head_is_named(connection: sqlite3.Connection) -> None:
    tamper(connection, "DELETE FROM ledger_t_head")
    assert named(connection) == {6: ["is not the newest record the ledger remembers"]}


def test_a_tail_that_was_deleted_and_written_anew_is_named(connection: sqlite3.Connection) -> None:
    """The new record is sound in itself; the head remembers another."""
    head = LEDGER.head(connection)
    fifth = LEDGER.after(connection, 4, 1)[0]
    tamper(
        connection,
        "DELETE FROM ledger_t WHERE seq = 6",
        f"UPDATE ledger_t_head SET seq = 5, hash = '{fifth.hash}'",
    )
    LEDGER.append(connection, at=AT, kind="note", body={"n": 666})
    connection.execute("UPDATE ledger_t_head SET seq = ?, hash = ?", head)
    assert named(connection) == {6: ["is not the newest record the ledger remembers"]}


def test_a_body_in_another_spelling_is_named(connection: sqlite3.Connection) -> None:
    record = LEDGER.after(connection, 2, 1)[0]
    spaced = json.dumps(record.body, ensure_ascii=False)
    tamper(connection, f"UPDATE ledger_t SET body = '{spaced}' WHERE seq = 3")
    assert named(connection) == {3: ["is not in canonical form"]}


@pytest.mark.parametrize(
    "body",
    ["'{'", "''", "CAST(x'ff' AS TEXT)", "'[1e999]'", f"'[{10**400}]'", '\'{"a":"\\ud800"}\''],
)
def test_a_body_that_cannot_be_read_is_named_and_the_rest_is_checked(
    connection: sqlite3.Connection, body: str
) -> None:
    tamper(
        connection,
        f"UPDATE ledger_t SET body = {body} WHERE seq = 3",
        "UPDATE ledger_t SET kind = 'other' WHERE seq = 5",
    )
    assert named(connection) == {3: ["cannot be read"], 5: ["was changed after it was written"]}


@pytest.mark.parametrize("column", ["at", "kind", "prev_hash", "hash"])
def test_a_field_that_is_no_longer_text_is_named(
    connection: sqlite3.Connection, column: str
) -> None:
    tamper(connection, f"UPDATE ledger_t SET {column} = CAST(x'61ff' AS TEXT) WHERE seq = 3")
    assert 3 in named(connection)
    assert set(named(connection)) <= {3, 4}


def test_ledgers_in_one_file_do_not_touch(connection: sqlite3.Connection) -> None:
    other = Ledger("other")
    other.create(connection)
    other.append(connection, at=AT, kind="note", body={})
    assert (LEDGER.head(connection)[0], other.head(connection)[0]) == (6, 1)
    assert other.verify(connection) == LEDGER.verify(connection) == []


@pytest.mark.parametrize("name", ["", "a b", "x; DROP TABLE t", "1a"])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="identifier"):
        Ledger(name)


def test_whoever_looks_on_sees_every_record_that_is_whole(connection: sqlite3.Connection) -> None:
    tamper(connection, "UPDATE ledger_t SET kind = 'other' WHERE seq = 3")
    seen: list[tuple[int, str, int]] = []
    faults = LEDGER.verify(
        connection, lambda seq, kind, body: seen.append((seq, kind, json.loads(body)["n"]))
    )
    assert [fault.seq for fault in faults] == [3]
    assert seen == [(n, "note", n) for n in (1, 2, 4, 5, 6)]


@pytest.mark.parametrize("kind", ['a "quoted" one', "back\\slash", "ünïcode", "new\nline\x01"])
def test_any_kind_is_hashed_as_canonical_json_writes_it(
    connection: sqlite3.Connection, kind: str
) -> None:
    record = LEDGER.append(connection, at=AT, kind=kind, body={"n": 1})
    assert record.hash == hashlib.sha256(record.canonical()).hexdigest()
    assert LEDGER.verify(connection) == []
