"""Copies the audit ledger into ClickHouse, where people can ask it questions."""

import anyio

from cortex.state.journal import Journal
from cortex.store.audit_log import AuditLogTable, AuditRow

_BATCH = 1000
_EVERY_S = 2.0


class AuditMirror:
    """A background job: what the ledger has and the table has not."""

    def __init__(self, journal: Journal, table: AuditLogTable) -> None:
        self._journal = journal
        self._table = table

    async def run(self) -> None:
        """Copy on, for ever."""
        seq = await self._table.last_seq(self._journal.chain)
        while True:
            seq = await self.copy_after(seq)
            await anyio.sleep(_EVERY_S)

    async def copy_after(self, seq: int) -> int:
        """Copy everything after record `seq` and return the number of the last one."""
        while records := await self._journal.after(seq, _BATCH):
            rows = [
                AuditRow(
                    seq=record.seq,
                    at=record.at,
                    kind=record.kind,
                    body=record.body,
                    canonical=record.canonical().decode(),
                    hash=record.hash,
                    prev_hash=record.prev_hash,
                )
                for record in records
            ]
            await self._table.add(self._journal.chain, rows)
            seq = records[-1].seq
        return seq
