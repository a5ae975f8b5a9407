"""Any interleaving of an agent, its daemons and the kernel between them."""

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cortex.edge.relay import Relay

READ, WRITE = "system.status", "system.restart"
HELLO = b'{"cortex":{"protocol":1}}\n'
WELCOME = b'{"cortex":{"protocol":1,"read_only":["system.status"]}}\n'


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


class Daemon:
    """One connection as the daemon sees it: it reads after it has said welcome."""

    def __init__(self) -> None:
        self.taken = bytearray()
        self.has_welcomed = False
        self.unanswered: list[Any] = []
        self.first_seen: list[int] = []
        self.writes: set[int] = set()

    def take(self, data: bytes) -> list[dict[str, Any]]:
        """Take bytes and return the messages they complete."""
        self.taken += data
        *lines, rest = bytes(self.taken).split(b"\n")
        self.taken = bytearray(rest)
        return [json.loads(line) for line in lines]


class Session(RuleBasedStateMachine):
    """Drives a relay and keeps the books that it must agree with."""

    def __init__(self) -> None:
        super().__init__()
        self.relay = Relay(json.loads, dump, lambda _text: None)
        self.daemon: Daemon | None = None
        self.said_hello = False
        self.count = 0
        self.waiting: dict[int, str] = {}
        self.cancelled: set[int] = set()
        self.answered: set[int] = set()
        self.spent: set[int] = set()  # writes that a daemon which said welcome had whole

    # The agent.

    @initialize(shakes_hands=st.booleans())
    def open_session(self, shakes_hands: bool) -> None:
        """Begin as clients before 2026 do, or as those after."""
        if shakes_hands:
            self._ask("initialize", {"protocolVersion": "2025-06-18"}, "initialize")

    @rule(kind=st.sampled_from(["ping", "read", "write"]))
    def ask(self, kind: str) -> None:
        if kind == "ping":
            self._ask("ping", {}, kind)
        else:
            name = READ if kind == "read" else WRITE
            self._ask("tools/call", {"name": name, "arguments": {}}, kind)

    def _ask(self, method: str, params: dict[str, Any], kind: str) -> None:
        self.count += 1
        self.waiting[self.count] = kind
        message = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.relay.from_agent(dump(message) + b"\n")

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.waiting)))
        if self.waiting[request_id] != "initialize":  # which the protocol forbids to cancel
            self.cancelled.add(request_id)
            params = {"requestId": request_id}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self.relay.from_agent(dump(message) + b"\n")

    def _hear(self) -> None:
        """Take what the relay has for the agent."""
        for line in bytes(self.relay.to_agent).splitlines():
            message = json.loads(line)
            request_id = message["id"]
            assert request_id not in self.answered, "answered twice"
            assert request_id in self.waiting, "answered though not asked"
            self.answered.add(request_id)
            kind = self.waiting.pop(request_id)
            if kind == "initialize" and "result" in message:
                self.relay.from_agent(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.relay.to_agent.clear()

    # The kernel and the daemon.

    @precondition(lambda self: self.daemon is None)
    @rule()
    def connect(self) -> None:
        self.daemon = Daemon()
        self.said_hello = False
        self.relay.connected(HELLO)

    @precondition(lambda self: self.daemon is None)
    @rule()
    def give_up(self) -> None:
        self.relay.give_up("no daemon can be had")
        self._hear()
        assert not set(self.waiting) - self.cancelled

    @precondition(lambda self: self.daemon is not None and self.relay.to_daemon)
    @rule(share=st.floats(0, 1))
    def send(self, share: float) -> None:
        """The kernel takes some of it, or all."""
        self._send(max(1, round(len(self.relay.to_daemon) * share)))

    def _send(self, count: int) -> None:
        assert self.daemon is not None
        data = bytes(self.relay.to_daemon[:count])
        self.relay.sent(count)
        for message in self.daemon.take(data):
            self._arrive(self.daemon, message)

    def _arrive(self, daemon: Daemon, message: dict[str, Any]) -> None:
        if "cortex" in message:
            self.said_hello = True
            return
        assert self.said_hello, "something came before hello"
        if "id" not in message:
            return
        daemon.unanswered.append(message["id"])
        if not isinstance(message["id"], int):
            return  # the bridge's own handshake
        assert message["id"] not in daemon.first_seen, "sent twice to one daemon"
        daemon.first_seen.append(message["id"])
        assert daemon.first_seen == sorted(daemon.first_seen), "out of the agent's order"
        if message.get("params", {}).get("name") == WRITE:
            assert message["id"] not in self.spent, "a change was sent again"
            assert message["id"] not in self.answered, "sent though answered"
            daemon.writes.add(message["id"])

    @precondition(lambda self: self.said_hello and not self.daemon.has_welcomed)
    @rule()
    def welcome(self) -> None:
        assert self.daemon is not None
        self.daemon.has_welcomed = True
        self.relay.from_daemon(WELCOME)

    @precondition(lambda self: self.daemon and self.daemon.has_welcomed and self.daemon.unanswered)
    @rule(data=st.data(), succeeds=st.booleans())
    def answer(self, data: st.DataObject, succeeds: bool) -> None:
        """Answer any of the requests: calls run beside each other."""
        assert self.daemon is not None
        request_id = data.draw(st.sampled_from(self.daemon.unanswered))
        self._answer(self.daemon, request_id, succeeds=succeeds)

    def _answer(self, daemon: Daemon, request_id: Any, *, succeeds: bool) -> None:
        daemon.unanswered.remove(request_id)
        ending = {"result": {}} if succeeds else {"error": {"code": -32603, "message": "no"}}
        self.relay.from_daemon(dump({"jsonrpc": "2.0", "id": request_id, **ending}) + b"\n")
        self._hear()

    @precondition(lambda self: self.daemon is not None)
    @rule()
    def die(self) -> None:
        """All that the daemon said was read before; the bridge reads to the end."""
        assert self.daemon is not None
        if self.daemon.has_welcomed:
            self.spent |= self.daemon.writes
        self.daemon = None
        self.said_hello = False
        self.relay.lost()
        self._hear()

    # What must hold.

    @invariant()
    def waits_for_what_the_agent_waits_for(self) -> None:
        assert self.relay.has_pending == bool(set(self.waiting) - self.cancelled)

    def teardown(self) -> None:
        """A daemon that stays answers everything that was not taken back."""
        if self.daemon is None:
            self.connect()
        daemon = self.daemon
        assert daemon is not None
        while self.relay.to_daemon or daemon.unanswered:
            if self.relay.to_daemon:
                self._send(len(self.relay.to_daemon))
            if not daemon.has_welcomed:
                self.welcome()
            for request_id in list(daemon.unanswered):
                self._answer(daemon, request_id, succeeds=True)
        assert set(self.waiting) <= self.cancelled, "never answered"


Session.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
test_any_interleaving_answers_each_request_once_and_makes_each_change_once = Session.TestCase
