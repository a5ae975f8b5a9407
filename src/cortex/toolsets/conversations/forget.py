"""Forgetting on request: out of every table, off the disk, and not back again."""

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import anyio

from cortex.clock import Clock, IdSource
from cortex.errors import InvalidParams, NotFound
from cortex.gateway.audit import Journal
from cortex.toolsets.conversations.forget_queries import ForgetQueries
from cortex.toolsets.conversations.forgotten import Preview, Rule, Scope, State, Wanted

log = logging.getLogger(__name__)

_LOOK_S = 2.0
# An engine that keeps what nobody reads for longer than this is asked again at the next start.
_ERASE_TIMEOUT_S = 900.0


class Reader(Protocol):
    """Whoever reads session files: it waits while others change the store."""

    def alone(self) -> AbstractAsyncContextManager[None]: ...

    def look_again(self) -> None: ...


class Forgetter:
    """Forgets, and takes it back. A rule that a crash cut off is finished by the next start."""

    def __init__(
        self,
        queries: ForgetQueries,
        reader: Reader,
        journal: Journal,
        clock: Clock,
        ids: IdSource,
        *,
        write_logs: Callable[[], Awaitable[None]],
        on_change: Callable[[], None],
        is_cluster: bool,
    ) -> None:
        self._queries = queries
        self._reader = reader
        self._journal = journal
        self._clock = clock
        self._ids = ids
        self._write_logs = write_logs
        self._on_change = on_change
        self._is_cluster = is_cluster
        self._turn = anyio.Lock()
        self._wake = anyio.Event()

    async def preview(self, scope: Scope, value: str) -> Preview:
        """Return what would go."""
        return await self._queries.preview(await self._wanted(scope, value))

    async def forget(self, scope: Scope, value: str, principal: str) -> Rule | None:
        """Remove it from every table; None if there is nothing to remove.

        Raises:
            Unavailable: the audit log cannot be written, and nothing was removed.
        """
        if self._is_cluster:
            raise InvalidParams("forget removes rows of one ClickHouse, not of a cluster")
        async with self._turn, self._reader.alone():
            await self._write_logs()
            wanted = await self._wanted(scope, value)
            found = await self._queries.preview(wanted)
            if found.is_empty:
                return None
            if scope == "project" and found.last is not None:
                # A clock that goes ahead of ours wrote of the past as well.
                newest_ms = _milliseconds(found.last + timedelta(milliseconds=1))
                wanted = replace(wanted, cutoff_ms=max(wanted.cutoff_ms, newest_ms))
            rule = Rule(
                rule_id=self._ids.new()[:8],
                wanted=wanted,
                principal=principal,
                at=self._clock.now(),
                counts=found.counts,
                files=await self._queries.files_of(wanted),
            )
            await self._journal.append("intent", _audited(rule))
            await self._queries.list_sessions(rule.rule_id, wanted)
            await self._queries.write_rule(rule)
            return await self._remove(rule)

    async def undo(self, rule_id: str, principal: str) -> Rule:
        """Let what a rule keeps out be read again, from the files that are still there."""
        async with self._turn, self._reader.alone():
            rule = await self._rule(rule_id)
            rule = replace(rule, principal=principal)
            await self._journal.append("intent", _audited(rule, "forget.undo"))
            # The files first: cut off here, they are read once more, to no effect.
            await self._queries.forget_checkpoints(rule.files)
            undone = replace(rule, state=State.UNDONE)
            await self._queries.write_rule(undone)
            await self._journal.append("outcome", _audited(undone, "forget.undo"))
        self._reader.look_again()
        return undone

    async def rules(self) -> list[Rule]:
        """Return what was forgotten and not taken back, oldest first."""
        return [rule for rule in await self._queries.rules() if rule.state != State.UNDONE]

    async def run(self) -> None:
        """Finish what was begun, and see that removed files leave the disk, for ever."""
        while True:
            self._wake = anyio.Event()
            for rule in await self.rules():
                if rule.state == State.REMOVING:
                    await self._finish(rule)
            await self._erase()
            await self._wake.wait()

    async def _finish(self, rule: Rule) -> None:
        async with self._turn, self._reader.alone():
            # Somebody else may have waited for the turn before us.
            rule = await self._rule(rule.rule_id)
            if rule.state == State.REMOVING:
                log.warning("what rule %s forgets was cut off and is removed now", rule.rule_id)
                await self._remove(rule)

    async def _remove(self, rule: Rule) -> Rule:
        """Remove the rows of a rule that is written down."""
        await self._queries.remove(rule)
        removed = replace(rule, state=State.REMOVED)
        await self._queries.write_rule(removed)
        await self._journal.append("outcome", _audited(removed))
        self._on_change()
        self._wake.set()
        return removed

    async def _erase(self) -> None:
        """Wait until the files of removed rows are gone from the disk."""
        waiting = [rule for rule in await self.rules() if rule.state == State.REMOVED]
        if not waiting:
            return
        left = await self._queries.old_files()
        await self._queries.hurry_cleaning()
        with anyio.move_on_after(_ERASE_TIMEOUT_S):
            while left := left & await self._queries.old_files():  # noqa: ASYNC110  # none tells
                await anyio.sleep(_LOOK_S)
        await self._queries.calm_cleaning()
        if left:
            log.warning("%d files of removed rows are still on the disk", len(left))
            return
        async with self._turn:
            erased = {rule.rule_id for rule in waiting}
            for rule in await self.rules():
                if rule.rule_id in erased and rule.state == State.REMOVED:
                    await self._queries.write_rule(replace(rule, state=State.ERASED))

    async def _rule(self, rule_id: str) -> Rule:
        known = {rule.rule_id: rule for rule in await self.rules()}
        if rule_id not in known:
            raise NotFound("rule", rule_id[:64], known=sorted(known))
        return known[rule_id]

    async def _wanted(self, scope: Scope, value: str) -> Wanted:
        if not value.strip():
            raise InvalidParams(f"the {scope} to forget cannot be empty")
        if scope == "project":
            if not os.path.isabs(value):  # noqa: PTH117  # a name only, perhaps of another machine
                raise InvalidParams(f"{value} is not an absolute path")
            now_ms = _milliseconds(self._clock.now())
            return Wanted(scope, value.rstrip("/") or "/", now_ms)
        if scope == "before":
            return Wanted(scope, value, _milliseconds(_moment(value)))
        return Wanted(scope, value)


def told(rule: Rule) -> dict[str, Any]:
    """Return a rule as plain values."""
    state = "removing removed erased undone".split()[rule.state - 1]
    return {
        "id": rule.rule_id,
        "scope": rule.wanted.scope,
        "value": rule.wanted.value,
        "state": state,
        "at": rule.at.isoformat(),
        "principal": rule.principal,
        "files": len(rule.files),
        "counts": dict(rule.counts),
    }


def told_preview(preview: Preview) -> dict[str, Any]:
    """Return a preview as plain values."""
    plain = asdict(preview)
    for name in ("first", "last"):
        plain[name] = plain[name].isoformat() if plain[name] else None
    return plain


def _audited(rule: Rule, tool: str = "forget") -> dict[str, Any]:
    """Return what is written down: who, what and how much, never what it said."""
    wanted = rule.wanted
    is_over = rule.state != State.REMOVING
    return {
        "call_id": rule.rule_id,
        "tool": tool,
        "principal": rule.principal,
        "client": "cortex-cli",
        "scope": wanted.scope,
        "value": wanted.value.encode("utf-8", "replace").decode()[:1024],
        "rows": {table: str(count) for table, count in rule.counts.items()},
    } | ({"outcome": "success", "code": ""} if is_over else {})


def _moment(value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidParams(f"{value!r} is not a date such as 2026-01-31") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
