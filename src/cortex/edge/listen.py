"""Where the daemon listens for bridges and commands: a unix socket, or a port with a secret."""

import os
import secrets
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio.abc import SocketAttribute

from cortex.errors import HomeError
from cortex.home import MAX_SOCKET_PATH_BYTES, Home

# 200 agents may start at once; the kernel caps this at its own limit.
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listening socket and what opens it; files to remove when it closes."""

    listener: anyio.abc.Listener[anyio.abc.SocketStream]
    address: str
    secret: str
    file: str

    def forget(self) -> None:
        """Remove the file through which others find us."""
        Path(self.file).unlink(missing_ok=True)


async def listen(home: Home, *, use_port: bool = not hasattr(socket, "AF_UNIX")) -> Endpoint:
    """Listen at the home's socket; on systems without unix sockets at a loopback port."""
    return await (_listen_port(home) if use_port else _listen_unix(home))


async def _listen_unix(home: Home) -> Endpoint:
    length = len(os.fsencode(home.socket))
    if length > MAX_SOCKET_PATH_BYTES:
        raise HomeError(
            f"the socket path {home.socket} is too long for this system"
            f" ({length} bytes, at most {MAX_SOCKET_PATH_BYTES})",
            hint="set CORTEX_HOME to a shorter folder",
        )
    Path(home.port_file).unlink(missing_ok=True)
    # The caller holds the daemon's lock, so a socket file that exists is a dead daemon's.
    Path(home.socket).unlink(missing_ok=True)
    listener: Any = await anyio.create_unix_listener(home.socket, mode=0o600, backlog=_BACKLOG)
    return Endpoint(listener, home.socket, secret="", file=home.socket)


async def _listen_port(home: Home) -> Endpoint:
    many = await anyio.create_tcp_listener(
        local_host="127.0.0.1", local_port=0, backlog=_BACKLOG, reuse_port=False
    )
    listener = many.listeners[0]
    port = int(listener.extra(SocketAttribute.local_port))
    secret = secrets.token_urlsafe(32)
    # Written under another name and renamed: a reader sees the whole of it or nothing.
    draft = Path(f"{home.port_file}.new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(f"{port} {secret}\n", "ascii")
    draft.replace(home.port_file)
    return Endpoint(listener, f"127.0.0.1:{port}", secret, file=home.port_file)


def peer_uid(channel: socket.socket) -> int | None:
    """Return the user id at the other end of a unix socket, as the kernel knows it."""
    if channel.family != getattr(socket, "AF_UNIX", None):
        return None
    if sys.platform == "darwin":
        # struct xucred: version, uid, group count, 16 groups; option LOCAL_PEERCRED of SOL_LOCAL.
        raw = channel.getsockopt(0, 1, struct.calcsize("IIh16I"))
        return int(struct.unpack_from("II", raw)[1])
    raw = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    return int(struct.unpack("iII", raw)[1])
