"""Past sessions as another toolset may read them; app.py hands this to memory."""

from typing import Any

from cortex.store.engine import Engine


class PastSessions:
    """Answers whether something was said, and what was said in a session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def has_event(self, event_uid: str) -> bool:
        """Tell whether there is such an event."""
        found = await self._engine.query(
            "SELECT 1 AS one FROM events WHERE event_uid = {uid:String} LIMIT 1", {"uid": event_uid}
        )
        return bool(found)

    async def session_events(self, session_id: str, limit: int) -> list[dict[str, Any]]:
        """Return what was said in a session, in order."""
        return await self._engine.query(
            "SELECT event_uid, actor_kind AS actor_role, text_content FROM events"
            " WHERE session_id = {session:String} AND text_content != ''"
            " ORDER BY doc_id LIMIT {limit:UInt32}",
            {"session": session_id, "limit": limit},
        )

    async def newest_session(self, project: str) -> str | None:
        """Return the session that spoke last in a project, or anywhere if none is named."""
        found = await self._engine.query(
            "SELECT session_id FROM events WHERE startsWith(project, {project:String})"
            " ORDER BY event_ts DESC LIMIT 1",
            {"project": project},
        )
        return str(found[0]["session_id"]) if found else None
