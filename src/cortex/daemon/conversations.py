"""Commands of a person about conversations: which sessions there are, and forgetting some."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast, get_args

from cortex.app import App
from cortex.clock import iso_utc
from cortex.edge.socket_server import Tell
from cortex.errors import InvalidParams
from cortex.toolsets.conversations.forget import told, told_preview
from cortex.toolsets.conversations.forgotten import Scope
from cortex.toolsets.conversations.session_queries import SessionFilters

_MAX_SESSIONS = 10_000


class ConversationCommands:
    """Answers in plain JSON."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def sessions(self, arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        """List sessions, newest first."""
        filters = SessionFilters(
            harness=_text(arguments, "harness"),
            project=_text(arguments, "project"),
            since=_moment(arguments, "since"),
            until=_moment(arguments, "until"),
        )
        limit = arguments.get("limit", 20)
        if not isinstance(limit, int) or not 1 <= limit <= _MAX_SESSIONS:
            raise InvalidParams(f"limit: a number from 1 to {_MAX_SESSIONS}")
        page = await self._app.sessions.list(filters, limit)
        rows = [
            asdict(session)
            | {
                "tokens": dict(session.tokens),
                "started_at": iso_utc(session.started_at),
                "updated_at": iso_utc(session.updated_at),
            }
            for session in page.sessions
        ]
        return {"total": page.total, "sessions": rows}

    async def forget(self, arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        """Show what would be forgotten, forget it, list what was forgotten, or take it back."""
        forgetter, action = self._app.forgetter, _text(arguments, "action")
        who = f"uid:{os.getuid() if hasattr(os, 'getuid') else 0}"
        if action == "list":
            return {"rules": [told(rule) for rule in await forgetter.rules()]}
        if action == "undo":
            return {"rule": told(await forgetter.undo(_text(arguments, "id"), who))}
        scope, value = _text(arguments, "scope"), _text(arguments, "value")
        if scope not in get_args(Scope):
            raise InvalidParams("scope: session, project or before")
        scope = cast("Scope", scope)
        if action == "preview":
            return told_preview(await forgetter.preview(scope, value))
        if action == "forget":
            rule = await forgetter.forget(scope, value, who)
            return {"rule": told(rule) if rule else None}
        raise InvalidParams("action: preview, forget, list or undo")


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return str(value) if value else ""


def _moment(arguments: Mapping[str, Any], name: str) -> datetime | None:
    value = _text(arguments, name)
    if not value:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidParams(f"{name}: {value!r} is not a date such as 2026-01-31") from None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
