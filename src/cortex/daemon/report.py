"""What the daemon tells a person about itself: `cortex status`, `tools`, `doctor`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from cortex.app import App
from cortex.clock import iso_utc
from cortex.daemon.jobs import Jobs
from cortex.edge.session import Session
from cortex.edge.socket_server import Tell
from cortex.gateway.spec import ToolSpec
from cortex.home import Home
from cortex.settings.load import LoadedSettings
from cortex.version import __version__


class Report:
    """Answers the commands of a person; values are plain JSON."""

    def __init__(self, app: App, loaded: LoadedSettings, home: Home, jobs: Jobs) -> None:
        self._app = app
        self._loaded = loaded
        self._home = home
        self._jobs = jobs
        self._started_at = app.clock.now()
        self.http_url: str | None = None
        self.sessions: Callable[[], Sequence[Session]] = list

    async def status(self, _arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        """Return how everything is doing."""
        app = self._app
        process = psutil.Process()
        sessions = self.sessions()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "startedAt": iso_utc(self._started_at),
            "uptimeSec": round((app.clock.now() - self._started_at).total_seconds(), 1),
            "memoryMB": process.memory_info().rss // (1024 * 1024),
            "home": self._home.root,
            "config": str(self._loaded.config_path) if self._loaded.config_path else None,
            "http": self.http_url,
            "store": {
                "kind": app.engine.kind,
                "address": app.engine.address,
                "version": app.engine.version,
            },
            "audit": {"records": await app.journal.length(), "lastError": app.audit.last_error},
            "ingest": asdict(app.ingest.coverage()),
            "projects": [asdict(project.state) for project in app.code.projects],
            "callsInFlight": app.pipeline.in_flight,
            "sessions": [_session(session) for session in sessions],
            "jobs": [
                {
                    "name": job.name,
                    "owner": job.owner,
                    "state": job.state,
                    "since": iso_utc(job.since) if job.since else None,
                    "restarts": job.restarts,
                    "lastError": job.last_error,
                }
                for job in self._jobs
            ],
            "notices": [*app.notices, *self._changes()],
        }

    async def tools(self, _arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        """Return what is registered, with gates and limits."""
        return {"tools": [self._tool(spec) for spec in self._app.pipeline.registry]}

    async def verify(self, _arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        """Check the audit chain and name every broken record."""
        faults = await self._app.journal.verify()
        return {
            "records": await self._app.journal.length(),
            "faults": [{"seq": fault.seq, "problem": fault.problem} for fault in faults],
        }

    async def ingest(self, arguments: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
        """Read session files once, telling how far it is."""
        paths, harness = arguments.get("paths"), arguments.get("harness")
        progress = await self._app.ingest.read(
            [str(path) for path in paths] if paths else None,
            str(harness) if harness else None,
            lambda progress: tell(asdict(progress)),
        )
        return asdict(progress)

    def _changes(self) -> Iterator[str]:
        """Say which files were read at start and have changed since."""
        config = self._loaded.config_path or Path(self._home.root) / "cortex.toml"
        for path in (config, *self._loaded.settings.policy.files):
            if path.exists() and path.stat().st_mtime > self._started_at.timestamp():
                yield f"{path} changed since the daemon started: cortex down && cortex up"

    def _tool(self, spec: ToolSpec) -> dict[str, Any]:
        policy, limits = spec.policy, self._app.pipeline.limits
        rate = policy.limit or limits.rate
        return {
            "name": spec.name,
            "toolset": spec.toolset,
            "description": spec.description,
            "gates": sorted(gate.value for gate in policy.gates),
            "mutates": policy.mutates,
            "rateLimit": {"calls": rate.calls, "windowSeconds": rate.per_s},
            "timeoutSeconds": policy.timeout_s or limits.timeout_s,
            "cacheSeconds": policy.cache.ttl_s if policy.cache else None,
            "maxInputBytes": policy.max_input_bytes or limits.max_input_bytes,
            "failure": policy.failure,
        }


def _session(session: Session) -> dict[str, Any]:
    return {
        "id": session.session_id,
        "client": session.client,
        "principal": session.principal,
        "transport": session.transport,
        "cwd": session.cwd,
        "pid": session.pid,
        "openedAt": iso_utc(session.opened_at),
    }
