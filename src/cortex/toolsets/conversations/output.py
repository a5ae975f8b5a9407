"""Secrets out of answers: what was stored before a rule existed is not shown either."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cortex.toolsets.conversations.ingest.clean import Cleaner
from cortex.toolsets.conversations.redaction import Redactor
from cortex.toolsets.conversations.service import Found, Hit, Window
from cortex.toolsets.conversations.snippet import snippet

# A secret that begins before a snippet, or ends after it, does so within this.
_AROUND_CHARS = 200
# Names, ids and moments are made by programs; a person or a tool may have put a secret into these.
_TEXTS = ("text_content", "title", "tool_name", "agent_label")


class OutputCleaner:
    """Runs the rules of redaction again, on what is about to be shown."""

    def __init__(self, redactor: Redactor, *, preview_chars: int) -> None:
        self._redactor = redactor
        self._cleaner = Cleaner(redactor)
        self._preview_chars = preview_chars

    def found(self, found: Found) -> Found:
        """Return hits without secrets."""
        return replace(found, hits=tuple(self._hit(hit, found) for hit in found.hits))

    def window(self, window: Window) -> Window:
        """Return a trace without secrets."""
        if window.target is None:
            return window
        events = [self._event(event) for event in window.events]
        doc_id = window.target["doc_id"]
        target = next(event for event in events if event["doc_id"] == doc_id)
        return replace(window, target=target, events=events)

    def _hit(self, hit: Hit, found: Found) -> Hit:
        """Clean what a hit shows: its snippet, not the whole text it was cut from."""
        text = str(hit.event.get("text_content") or "")
        shown = hit.snippet
        if self._has_secret_near(text, shown):
            # Half a secret at the edge of a snippet has no shape any more: cut again.
            clean = self._cleaner.text(text)
            shown = self._cleaner.text(snippet(clean, found.terms, self._preview_chars))
        name = self._cleaner.text(str(hit.event.get("tool_name") or ""))
        event = hit.event
        if name != (event.get("tool_name") or ""):
            event = {**event, "tool_name": name}
        return replace(hit, event=event, title=self._cleaner.text(hit.title), snippet=shown)

    def _has_secret_near(self, text: str, shown: str) -> bool:
        line = " ".join(text.split())
        core = shown.strip("…").strip()
        place = line.find(core)
        if place < 0 or "PRIVATE KEY" in line:
            return bool(self._redactor.redact(line).counts or self._redactor.redact(shown).counts)
        around = line[max(0, place - _AROUND_CHARS) : place + len(core) + _AROUND_CHARS]
        return bool(self._redactor.redact(around).counts)

    def _event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        changed: dict[str, Any] = {}
        for name in _TEXTS:
            text = event.get(name)
            if text:
                clean = self._redactor.redact(text)
                if clean.counts:
                    changed[name] = clean.text
        payload = event.get("payload_json")
        # JSON that has nothing to hide comes back as the same object.
        if payload and (clean := self._cleaner.json(payload)).text is not payload:
            changed["payload_json"] = clean.text
        return {**event, **changed} if changed else event
