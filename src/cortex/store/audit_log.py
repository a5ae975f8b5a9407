"""The table `audit_log`: the ledger of calls, copied here to be read and searched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cortex.store.engine import Engine

_COLUMNS = (
    "chain",
    "seq",
    "at",
    "kind",
    "call_id",
    "tool",
    "principal",
    "client",
    "outcome",
    "code",
    "duration_ms",
    "input_digest",
    "record",
    "hash",
    "prev_hash",
)
_FROM_BODY = ("call_id", "tool", "principal", "client", "outcome", "code")


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One record of the ledger, as the table takes it."""

    seq: int
    at: str
    kind: str
    body: Mapping[str, Any]
    canonical: str
    hash: str
    prev_hash: str


class AuditLogTable:
    """Reads how far the copy goes, and adds to it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def last_seq(self, chain: str) -> int:
        """Return the number of the newest record that was copied, 0 if none was."""
        rows = await self._engine.query(
            "SELECT max(seq) AS seq FROM audit_log WHERE chain = {chain:String}", {"chain": chain}
        )
        return int(rows[0]["seq"])

    async def add(self, chain: str, rows: Sequence[AuditRow]) -> None:
        """Copy records; one that is there already collapses into one."""
        await self._engine.insert(
            "audit_log",
            _COLUMNS,
            [
                (
                    chain,
                    row.seq,
                    datetime.fromisoformat(row.at),
                    row.kind,
                    *(str(row.body.get(name, "")) for name in _FROM_BODY),
                    float(row.body.get("duration_ms", 0.0)),
                    str(row.body.get("input_digest", "")),
                    row.canonical,
                    row.hash,
                    row.prev_hash,
                )
                for row in rows
            ],
        )
