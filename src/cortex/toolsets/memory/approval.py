"""A person's yes, out of the model's sight: codes that work once, for exactly these memories."""

import hashlib
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol

from cortex.clock import Clock, iso_utc
from cortex.errors import GateClosed
from cortex.state.ledger import digest
from cortex.toolsets.memory.models import Memory, Via
from cortex.toolsets.memory.policy import GATE

Action = Literal["accept", "reject"]

VALID_S = 600.0
# No 0/O, 1/I/L: a person reads it from one window into another.
_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
_CODE_CHARS = 10
_MAX_OPEN = 100


class Approver(Protocol):
    """Asks the person behind a client, who answers in the client; None: they cannot be asked."""

    async def approve(self, question: str) -> bool | None: ...


@dataclass(frozen=True, slots=True)
class Approval:
    """How a person agreed."""

    via: Via


def digest_of(action: Action, memories: Sequence[Memory]) -> str:
    """Return the digest of an action on exactly these memories, as they are at this moment."""
    parts = sorted(
        (memory.id, digest({**memory.open_fields(), **memory.sealed_fields()}))
        for memory in memories
    )
    return digest({"action": action, "memories": parts})


@dataclass(frozen=True, slots=True)
class Codes:
    """One-time approval codes in the state; only their hashes are kept."""

    clock: Clock

    def issue(
        self, connection: sqlite3.Connection, action: Action, memories: Sequence[Memory]
    ) -> str:
        """Make a code for an action on these memories."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_CHARS))
        now = self.clock.now()
        expires_at = iso_utc(now + timedelta(seconds=VALID_S))
        connection.execute("DELETE FROM memory_codes WHERE expires_at <= ?", (iso_utc(now),))
        connection.execute(
            "DELETE FROM memory_codes WHERE code_hash IN (SELECT code_hash FROM memory_codes"
            " ORDER BY expires_at DESC LIMIT -1 OFFSET ?)",
            (_MAX_OPEN - 1,),
        )
        connection.execute(
            "INSERT INTO memory_codes (code_hash, digest, expires_at) VALUES (?, ?, ?)",
            (_hash(code), digest_of(action, memories), expires_at),
        )
        return f"{code[:5]}-{code[5:]}"

    def redeem(
        self,
        connection: sqlite3.Connection,
        code: str,
        action: Action,
        memories: Sequence[Memory],
    ) -> bool:
        """Use a code up, and tell whether it was valid for this action on these memories."""
        # A code shown for the wrong memories is used up too: it was shown to a model.
        row = connection.execute(
            "DELETE FROM memory_codes WHERE code_hash = ? RETURNING digest, expires_at",
            (_hash(code),),
        ).fetchone()
        if row is None or str(row[1]) <= iso_utc(self.clock.now()):
            return False
        return secrets.compare_digest(str(row[0]), digest_of(action, memories))


def no_approval(tool: str, memories: Sequence[Memory], *, reason: str) -> GateClosed:
    """Return the error that says what a person can do."""
    ids = " ".join(memory.id for memory in memories[:5])
    more = " …" if len(memories) > 5 else ""
    verb = " --reject" if tool.endswith("_reject") else ""
    return GateClosed(
        tool,
        GATE,
        reason=reason,
        hint="a person can run `cortex memory review`, or"
        f" `cortex memory approve{verb} {ids}{more}` and give you the code, which works once",
    )


def _hash(code: str) -> str:
    plain = "".join(c for c in code.upper() if c.isalnum())
    return hashlib.sha256(plain.encode()).hexdigest()
