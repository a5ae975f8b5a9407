"""The states of one service and when it is started again: pure rules on a clock passed in."""

from dataclasses import dataclass
from datetime import datetime

from cortex.clock import Clock
from cortex.settings.services import RestartPolicy
from cortex.toolsets.operations.services.models import State

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
# One that ran this long before it ended begins again with the shortest wait.
STABLE_S = 60.0
# Without a health check, one that lived this long has started.
STEADY_S = 1.0
# With a health check that never passes, one that lived this long is no longer starting.
START_GRACE_S = 30.0


@dataclass(slots=True)
class Life:
    """Where one service stands, told of everything that happens to it."""

    restart: RestartPolicy
    clock: Clock
    has_health: bool = False
    state: State = "stopped"
    since: datetime | None = None
    detail: str = ""
    restarts: int = 0
    _launches: int = 0
    _launched_s: float = 0.0
    _wait_s: float = FIRST_WAIT_S

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self.state in ("starting", "running", "degraded")

    @property
    def launches(self) -> int:
        """Return how many processes there have been; a restart is over when there is another."""
        return self._launches

    def waits(self, why: str) -> None:
        """It shall run, and something else must come first."""
        self._enter("starting", why)

    def launched(self) -> None:
        """A process was started."""
        if self.state == "backoff":
            self.restarts += 1
        self._launches += 1
        self._launched_s = self.clock.monotonic()
        self._enter("starting", "")

    def adopted(self, uptime_s: float) -> None:
        """A process of an earlier daemon was found; a check says whether it is well."""
        self._launches += 1
        self._launched_s = self.clock.monotonic() - uptime_s
        self._enter("starting" if self.has_health else "running", "found running")

    def steady(self) -> None:
        """The process lived for a while; all there is to see where nothing is checked."""
        if self.state == "starting" and not self.has_health:
            self._enter("running", "")

    def checked(self, problem: str | None) -> None:
        """A health check passed, or failed with this problem."""
        if not self.is_up:
            return
        if problem is None:
            self._enter("running", "")
        elif self.state != "starting" or self._uptime_s() >= START_GRACE_S:
            self._enter("degraded", problem)
        else:
            self.detail = problem

    def ended(self) -> None:
        """The process ended because it was told to; the next one waits for nothing."""
        self._wait_s = FIRST_WAIT_S
        self._enter("stopped", "")

    def exited(self, code: int | None, why: str = "") -> float | None:
        """The process ended by itself: return the seconds to wait for the next, or None.

        The code is None for a process of an earlier daemon, which only its parent could ask. That
        counts as a failure: better one start too many than a service that is down.
        """
        is_failure = code != 0
        detail = why or _told(code)
        if self.restart == "never" or (self.restart == "on-failure" and not is_failure):
            self._enter("failed" if code else "stopped", detail)
            return None
        if self._launches and self._uptime_s() >= STABLE_S:
            self._wait_s = FIRST_WAIT_S
        wait_s = self._wait_s
        self._wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        self._enter("backoff", f"{detail}; next start in {wait_s:g} s")
        return wait_s

    def found(self, state: State, detail: str) -> None:
        """Take over what an earlier daemon last knew of a service at rest."""
        self._enter(state, detail)

    def _uptime_s(self) -> float:
        return self.clock.monotonic() - self._launched_s

    def _enter(self, state: State, detail: str) -> None:
        if state != self.state or self.since is None:
            self.since = self.clock.now()
        self.state = state
        self.detail = detail


def _told(code: int | None) -> str:
    if code is None:
        return "ended, nobody saw how"
    return f"ended by signal {-code}" if code < 0 else f"ended with {code}"
