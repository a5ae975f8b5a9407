"""What is written down of each call: who, what, when, how it ended; arguments only as a digest."""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cortex.errors import CortexError, Unavailable
from cortex.gateway.spec import Caller, Params, ToolSpec

log = logging.getLogger(__name__)

_MAX_TEXT = 256

SUCCESS = "success"
CANCELLED = "cancelled"
# The words of the document behind operations for how a call ended, by error code.
_OUTCOMES = {
    SUCCESS: "success",
    CANCELLED: "cancelled",
    "validation_failed": "validation_error",
    "forbidden": "forbidden",
    "rate_limited": "rate_limited",
}


class Journal(Protocol):
    """An append-only chain of records; `append` returns when the record is durable."""

    async def append(self, kind: str, body: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known of a call before it runs."""

    call_id: str
    tool: str
    caller: Caller
    input_digest: str


class AuditTrail:
    """Writes intents and outcomes; remembers whether the last write worked."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.last_error: str | None = None

    async def intent(self, facts: CallFacts, spec: ToolSpec, params: Params) -> None:
        """Write down that a change is about to be made; raise if it cannot be written."""
        body = _body(facts) | {"input": _safe_input(spec, params)}
        try:
            await self._journal.append("intent", body)
        except CortexError as error:
            self.last_error = error.message
            raise Unavailable(
                f"{spec.name} was not run: the audit log cannot be written",
                hint="see cortex doctor",
            ) from error

    async def outcome(
        self,
        facts: CallFacts,
        *,
        code: str,
        duration_ms: float,
        cached: bool = False,
    ) -> None:
        """Write down how a call ended; a failure to do so is logged and shown by `status`."""
        body = _body(facts) | {
            "outcome": _OUTCOMES.get(code, "error"),
            "code": "" if code == SUCCESS else code,
            "duration_ms": round(duration_ms, 3),
            "cached": cached,
        }
        try:
            await self._journal.append("outcome", body)
        except CortexError as error:
            self.last_error = error.message
            log.exception("audit: the outcome of call %s was not written", facts.call_id)
        else:
            self.last_error = None


def digest_of(arguments: object) -> str:
    """Return the SHA-256 of the arguments as sent, whatever they are."""
    try:
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=str)
    except (RecursionError, TypeError, ValueError):  # too deep, mixed keys, or a circle
        text = "not JSON"
    return hashlib.sha256(text.encode()).hexdigest()


def _body(facts: CallFacts) -> dict[str, Any]:
    caller = facts.caller
    return {
        "call_id": facts.call_id,
        "tool": _text(facts.tool),
        "principal": caller.principal,
        "client": _text(caller.client),
        "transport": caller.transport,
        "session_id": caller.session_id,
        "input_digest": facts.input_digest,
    }


def _text(sent: str) -> str:
    """Return a text of the caller as a record can hold it: short, and free of half characters."""
    return sent[:_MAX_TEXT].encode("utf-8", "replace").decode()


def _safe_input(spec: ToolSpec, params: Params) -> dict[str, Any]:
    dumped = params.model_dump(mode="json", include=set(spec.policy.safe_fields))
    # As text, so that a number no canonical JSON can hold does not stop the record.
    return {
        key: value if isinstance(value, str | bool | None) else json.dumps(value)
        for key, value in dumped.items()
    }
