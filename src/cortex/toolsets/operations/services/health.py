"""Asking a service whether it is well: a command, a request or a connection, bounded in time."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.abc
import httpx2

from cortex.settings.services import HealthSettings

MAX_CHECK_S = 10.0


async def check(health: HealthSettings, *, cwd: Path, env: Mapping[str, str]) -> str | None:
    """Return None if the service is well, else what is wrong, in a few words."""
    timeout_s = min(MAX_CHECK_S, health.interval_ms / 1000)
    problem: str | None = f"no answer to the health check within {timeout_s:g} s"
    with anyio.move_on_after(timeout_s):
        if health.command is not None:
            problem = await _by_command(health.command, cwd, env)
        elif health.http is not None:
            problem = await _by_http(health.http, timeout_s)
        elif health.tcp is not None:
            problem = await _by_tcp(health.tcp)
    return problem


async def _by_command(command: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> str | None:
    try:
        process = await anyio.open_process(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return f"the health check cannot run: {error.strerror}"
    try:
        code = await process.wait()
    finally:
        await _end(process)
    return f"the health check ended with {code}" if code else None


async def _end(process: anyio.abc.Process) -> None:
    """End a check that takes too long, with what it started, and bury it."""
    if process.returncode is None:  # not buried yet: the number is still that of this process
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with anyio.CancelScope(shield=True):
        await process.aclose()


async def _by_http(url: str, timeout_s: float) -> str | None:
    is_tls = url.startswith("https:")  # reading the certificates takes longer than the check
    try:
        # No proxy of the environment: what is asked for is here, or where the operator said.
        async with (
            httpx2.AsyncClient(timeout=timeout_s, trust_env=False, verify=is_tls) as client,
            client.stream("GET", url) as answer,
        ):
            is_well = 200 <= answer.status_code < 400
            return None if is_well else f"the health check was answered with {answer.status_code}"
    except httpx2.HTTPError as error:
        return f"the health check got no answer: {type(error).__name__}"


async def _by_tcp(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        stream = await anyio.connect_tcp(host.strip("[]"), int(port))
    except OSError as error:
        return f"{address} takes no connection: {error.strerror or type(error).__name__}"
    await stream.aclose()
    return None
