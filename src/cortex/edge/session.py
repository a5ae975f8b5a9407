"""What the daemon knows of one open connection."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cortex.errors import NotFound
from cortex.gateway.spec import Caller, Transport


def chosen_toolsets(names: Iterable[str] | None, known: frozenset[str]) -> frozenset[str] | None:
    """Return the toolsets a session asked for, None for all; one there is not is an error."""
    if names is None:
        return None
    chosen = frozenset(names)
    for name in sorted(chosen - known):
        raise NotFound("toolset", name, known=sorted(known))
    return chosen


@dataclass(slots=True, kw_only=True)
class Session:
    """One agent, one person at the CLI, or one HTTP client."""

    session_id: str
    principal: str
    transport: Transport
    opened_at: datetime
    cwd: str | None = None
    pid: int | None = None
    toolsets: frozenset[str] | None = None  # None: all of them
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    allow_mutations: bool = False
    client: str = "unknown"  # learnt from the handshake

    def caller(self, client: str) -> Caller:
        """Return who a call of this session is made by."""
        return Caller(
            principal=self.principal,
            client=client,
            transport=self.transport,
            session_id=self.session_id,
            cwd=self.cwd,
            allow_mutations=self.allow_mutations,
            environ=self.environ,
        )
