"""What the bridge remembers of a session, so that the daemon may die and the agent not notice.

Bytes in, bytes out, no I/O. Between an agent's lines and the daemon's it keeps the handshake, and
every request that is not answered yet. Loaded in each agent session: see the note in `home.py`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MAX_LINE_BYTES = 16 * 1024 * 1024
PROTOCOL = 1
_PRIVATE_ID = "cortex-bridge-handshake"


class Request:
    """A request of the agent that has no answer yet."""

    __slots__ = ("end", "is_cancelled", "line", "tool")

    def __init__(self, line: bytes, tool: str | None) -> None:
        self.line = line
        self.tool = tool  # the tool it calls, if it calls one
        self.end: int | None = None  # where its last byte lies in the stream to this daemon
        self.is_cancelled = False


class Relay:
    """The session as seen from the middle. `to_daemon` and `to_agent` are drained by its owner."""

    def __init__(
        self,
        parse: Callable[[bytes], Any],
        dump: Callable[[Any], bytes],
        log: Callable[[str], None],
    ) -> None:
        self._parse = parse
        self._dump = dump
        self._log = log
        self.to_agent = bytearray()
        self.to_daemon = bytearray()
        self._sent = 0  # bytes of this connection that the kernel took
        self._epoch = 0  # counts connections: ids of the daemon's own requests carry it
        self._is_connected = False
        self._read_only: frozenset[str] | None = None
        self.refusal: str | None = None  # why the daemon will not have this session
        self.was_welcomed = False  # some daemon had it
        self._handshake: bytes | None = None  # the agent's `initialize`, once it was answered
        self._initialized: bytes | None = None
        self._is_shaking = False
        self._held: list[bytes] = []
        self._pending: dict[Any, Request] = {}

    @property
    def has_pending(self) -> bool:
        """Whether the agent waits for an answer."""
        return any(not request.is_cancelled for request in self._pending.values())

    # From the agent.

    def from_agent(self, line: bytes) -> None:
        """Take one line of the agent."""
        message = self._message(line, "the agent")
        if message is None:
            return
        method, has_id = message.get("method"), "id" in message
        if method is None:
            self._answer_daemon(message)
            return
        if has_id:
            request = Request(line, _tool_of(message))
            self._pending[message["id"]] = request
        elif method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled" and self._note_cancel(message):
            return
        self._forward(line, self._pending.get(message.get("id")) if has_id else None)

    def _answer_daemon(self, message: dict[str, Any]) -> None:
        """Pass on an answer to a question of the daemon, if that daemon still lives."""
        epoch, _, original = str(message.get("id")).partition(":")
        if epoch != str(self._epoch):
            return
        try:
            message["id"] = self._parse(original.encode())
        except ValueError:
            self._log("dropped an answer to a question that nobody asked")
            return
        self._forward(self._dump(message) + b"\n", None)

    def _note_cancel(self, message: dict[str, Any]) -> bool:
        """Note that nobody waits any more; tell whether that is the end of it."""
        params = message.get("params")
        target = params.get("requestId") if isinstance(params, dict) else None
        request = self._pending.get(target) if isinstance(target, str | int) else None
        if request is None:
            return False
        request.is_cancelled = True
        if request.end is None:  # no daemon has heard of it
            del self._pending[target]
            return True
        return False

    def _forward(self, line: bytes, request: Request | None) -> None:
        if not self._is_connected:
            return  # requests wait in `_pending`; a notice to a dead daemon has no reader
        if self._is_shaking:
            if request is None:
                self._held.append(line)
            return
        self.to_daemon += line
        if request is not None:
            request.end = self._sent + len(self.to_daemon)

    # From the daemon.

    def from_daemon(self, line: bytes) -> None:
        """Take one line of the daemon."""
        message = self._message(line, "the daemon")
        if message is None:
            return
        if "cortex" in message:
            self._be_welcomed(message["cortex"])
            return
        if "method" in message:
            if "id" in message:
                # Ids of one daemon may be used again by the next: mark whose question it is.
                message["id"] = f"{self._epoch}:{self._dump(message['id']).decode()}"
                line = self._dump(message) + b"\n"
            self.to_agent += line
            return
        if self._is_shaking and message.get("id") == _PRIVATE_ID:
            self._finish_handshake()
            return
        request = self._pending.pop(message.get("id"), None)
        if request is None:
            self._log("dropped an answer that nobody waits for")
            return
        if request.tool is None and b'"initialize"' in request.line and "result" in message:
            parsed = self._parse(request.line)
            if parsed.get("method") == "initialize":
                self._handshake = request.line
        self.to_agent += line

    def _be_welcomed(self, welcome: dict[str, Any]) -> None:
        if "error" in welcome:
            error = welcome["error"]
            hint = error.get("details", {}).get("hint")
            self.refusal = f"{error['message']} ({hint})" if hint else error["message"]
        else:
            self._read_only = frozenset(welcome["read_only"])
            self.was_welcomed = True

    # The daemon comes and goes.

    def connected(self, hello: bytes) -> None:
        """Begin a connection: say hello, repeat the handshake, then what was unanswered."""
        self._epoch += 1
        self._is_connected = True
        self.refusal = None
        self._sent = 0
        self.to_daemon = bytearray(hello)
        if self._handshake is not None:
            message = self._parse(self._handshake)
            message["id"] = _PRIVATE_ID
            self.to_daemon += self._dump(message) + b"\n"
            self._is_shaking = True
        else:
            self._resend()

    def _finish_handshake(self) -> None:
        self._is_shaking = False
        if self._initialized is not None:
            self.to_daemon += self._initialized
        self._resend()
        for line in self._held:
            self.to_daemon += line
        self._held.clear()

    def _resend(self) -> None:
        for request in self._pending.values():
            self.to_daemon += request.line
            request.end = self._sent + len(self.to_daemon)

    def sent(self, count: int) -> None:
        """Note that the kernel took the first `count` bytes of `to_daemon`."""
        del self.to_daemon[:count]
        self._sent += count

    def lost(self) -> None:
        """End a connection: answer what may have been done and must not be done twice."""
        for key, request in list(self._pending.items()):
            was_sent = request.end is not None and request.end <= self._sent
            if request.is_cancelled:
                del self._pending[key]
            elif was_sent and not self._is_repeatable(request):
                self._fail(
                    key,
                    f"The daemon stopped while {request.tool} was running; it may have been done",
                    "look at the present state before you call it again",
                )
            request.end = None
        self._is_connected = self._is_shaking = False
        self._held.clear()
        self._read_only = None
        self.to_daemon.clear()

    def _is_repeatable(self, request: Request) -> bool:
        if request.tool is None:
            return True
        # The daemon names its read-only tools before it reads a request: no word, nothing was run.
        return self._read_only is None or request.tool in self._read_only

    def give_up(self, problem: str) -> None:
        """Answer everything that waits: no daemon can be had."""
        for key, request in list(self._pending.items()):
            if request.is_cancelled:
                del self._pending[key]
            else:
                self._fail(key, problem, "run cortex doctor")

    def refuse(self, head: bytes, tail: bytes, size_bytes: int) -> None:
        """Answer a line too long to be read, if its id can be found at either end of it."""
        key = _find_id(head) or _find_id(tail)
        self._log(f"skipped a line of {size_bytes} bytes; at most {MAX_LINE_BYTES} are read")
        if key is not None:
            self._error(
                self._parse(key),
                -32602,
                "size_limit_exceeded",
                f"The message is over {MAX_LINE_BYTES} bytes",
                {"maxBytes": MAX_LINE_BYTES},
            )

    def _fail(self, key: Any, message: str, hint: str) -> None:
        self._pending.pop(key, None)
        self._error(key, -32603, "unavailable", message, {"hint": hint})

    def _error(self, key: Any, code: int, name: str, message: str, details: dict[str, Any]) -> None:
        data = {"error": {"code": name, "message": message, "details": details}}
        error = {"code": code, "message": message, "data": data}
        self.to_agent += self._dump({"jsonrpc": "2.0", "id": key, "error": error}) + b"\n"

    def _message(self, line: bytes, sender: str) -> dict[str, Any] | None:
        try:
            message = self._parse(line)
        except (ValueError, RecursionError) as error:
            self._log(f"skipped a line of {sender} that is not JSON: {type(error).__name__}")
            return None
        if not isinstance(message, dict) or not isinstance(message.get("id", 0), str | int):
            self._log(f"skipped a line of {sender} that is not a JSON-RPC message")
            return None
        return message


def _tool_of(message: dict[str, Any]) -> str | None:
    if message.get("method") != "tools/call":
        return None
    params = message.get("params")
    return str(params.get("name")) if isinstance(params, dict) else ""


def _find_id(part: bytes) -> bytes | None:
    """Find `"id": <number or string>` in a piece of a message."""
    at = part.find(b'"id"')
    while at >= 0:
        rest = part[at + 4 :].lstrip()
        if rest[:1] == b":":
            value = rest[1:].lstrip()
            if value[:1] == b'"' and b'"' in value[1:]:
                return value[: value.index(b'"', 1) + 1]
            digits = value[: len(value) - len(value.lstrip(b"-0123456789"))]
            if digits:
                return digits
        at = part.find(b'"id"', at + 4)
    return None


class Lines:
    """Cuts a byte stream into lines, and lines that are too long out of it."""

    def __init__(self, too_long: Callable[[bytes, bytes, int], None]) -> None:
        self._parts = bytearray()
        self._too_long = too_long
        self._skipped = 0
        self._head = b""

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """Take a chunk and return the lines it completes, newline included."""
        lines: list[bytes] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start : end + 1])
            start = end + 1
            if self._skipped:
                size_bytes = self._skipped + len(self._parts)
                self._too_long(self._head, bytes(self._parts[-4096:]), size_bytes)
                self._skipped = 0
            elif self._parts.strip():
                lines.append(bytes(self._parts))
            self._parts.clear()
        self._take(chunk[start:])
        return lines

    def _take(self, piece: bytes) -> None:
        self._parts += piece
        if len(self._parts) > MAX_LINE_BYTES:
            if not self._skipped:
                self._head = bytes(self._parts[:4096])
            self._skipped += len(self._parts) - 4096
            del self._parts[:-4096]

    def rest(self) -> bytes:
        """Return what came after the last newline."""
        return bytes(self._parts)
