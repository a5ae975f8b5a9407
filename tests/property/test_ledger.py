import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cortex.state.ledger import Ledger

# Machines are busy: the time of one example says nothing.
UNHURRIED = settings(deadline=None, max_examples=150)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
RECORDS = st.tuples(TEXT, TEXT, st.dictionaries(TEXT, VALUES, max_size=3))
LEDGER = Ledger("t")
FIELDS = ("at", "kind", "body", "prev_hash", "hash")

Entry = tuple[str, str, dict[str, Any]]


def filled(records: Sequence[Entry]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    LEDGER.create(connection)
    for at, kind, body in records:
        LEDGER.append(connection, at=at, kind=kind, body=body)
    return connection


def named(connection: sqlite3.Connection) -> set[int]:
    return {fault.seq for fault in LEDGER.verify(connection)}


@UNHURRIED
@given(st.lists(RECORDS, max_size=8))
def test_any_sequence_of_records_verifies_and_reads_back(records: list[Entry]) -> None:
    with closing(filled(records)) as connection:
        assert LEDGER.verify(connection) == []
        read = LEDGER.after(connection, 0, 100)
        assert [(r.at, r.kind, r.body) for r in read] == records
        assert LEDGER.head(connection) == (len(records), read[-1].hash if read else "0" * 64)


@UNHURRIED
@given(st.data(), st.lists(RECORDS, min_size=1, max_size=5), st.sampled_from(FIELDS))
def test_one_changed_byte_in_any_field_of_any_record_is_named(
    data: st.DataObject, records: list[Entry], field: str
) -> None:
    seq = data.draw(st.integers(1, len(records)), "seq")
    with closing(filled(records)) as connection:
        connection.execute("DROP TRIGGER ledger_t_no_update")
        stored = bytearray(
            connection.execute(
                f"SELECT CAST({field} AS BLOB) FROM ledger_t WHERE seq = ?", (seq,)
            ).fetchone()[0]
        )
        assume(stored)
        at = data.draw(st.integers(0, len(stored) - 1), "at")
        stored[at] ^= data.draw(st.integers(1, 255), "flip")
        connection.execute(
            f"UPDATE ledger_t SET {field} = CAST(? AS TEXT) WHERE seq = ?", (bytes(stored), seq)
        )
        # A changed hash is also one that the next record does not follow.
        assert seq in named(connection)
        assert named(connection) <= {seq, seq + 1}


@UNHURRIED
@given(st.data(), st.lists(RECORDS, min_size=1, max_size=5))
def test_one_changed_byte_in_the_number_of_any_record_is_named(
    data: st.DataObject, records: list[Entry]
) -> None:
    seq = data.draw(st.integers(1, len(records)), "seq")
    number = bytearray(seq.to_bytes(8, "big", signed=True))
    number[data.draw(st.integers(0, 7), "at")] ^= data.draw(st.integers(1, 255), "flip")
    moved = int.from_bytes(number, "big", signed=True)
    assume(not 1 <= moved <= len(records))  # SQLite itself refuses a number that is taken
    with closing(filled(records)) as connection:
        connection.execute("DROP TRIGGER ledger_t_no_update")
        connection.execute("UPDATE ledger_t SET seq = ? WHERE seq = ?", (moved, seq))
        assert {seq, moved} <= named(connection)


@UNHURRIED
@given(st.data(), st.lists(RECORDS, min_size=1, max_size=8))
def test_any_records_that_are_gone_are_named(data: st.DataObject, records: list[Entry]) -> None:
    gone = data.draw(st.sets(st.integers(1, len(records)), min_size=1), "gone")
    with closing(filled(records)) as connection:
        connection.execute("DROP TRIGGER ledger_t_no_delete")
        for seq in gone:
            connection.execute("DELETE FROM ledger_t WHERE seq = ?", (seq,))
        # A gap is named by its first record; the problem names its other end.
        firsts = {seq for seq in gone if seq - 1 not in gone}
        assert named(connection) == firsts
