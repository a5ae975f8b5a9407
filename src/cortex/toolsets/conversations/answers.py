"""How search and open answer: the whole as JSON on request, else prose a model reads at once."""

import json
from typing import Any, ClassVar, Literal

from pydantic import Field

from cortex.clock import iso_utc
from cortex.gateway.spec import Result
from cortex.toolsets.conversations.service import Found, Hit, Window

Verbosity = Literal["prose", "full"]
_LINE_CHARS = 220
_TOKENS = "input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens".split()


class Prose(Result):
    """An answer with two faces."""

    is_published: ClassVar[bool] = False

    verbosity: Verbosity = Field(default="prose", exclude=True)
    prose: str = Field(default="", exclude=True)
    payload: dict[str, Any]

    def to_data(self) -> dict[str, Any]:
        return self.payload

    def to_structured(self) -> dict[str, Any] | None:
        return self.payload if self.verbosity == "full" else None

    def to_text(self) -> str:
        if self.verbosity == "prose":
            return self.prose
        return json.dumps(self.payload, indent=2, ensure_ascii=False)


def search_answer(found: Found, verbosity: Verbosity, coverage: dict[str, Any]) -> Prose:
    """Return the answer to a search."""
    hits = [_hit(rank, hit) for rank, hit in enumerate(found.hits, 1)]
    payload = {
        "query_id": found.query_id,
        "query": found.query,
        "terms": list(found.terms),
        "stats": {
            "docs": found.docs,
            "avgdl": found.average_words,
            "took_ms": found.took_ms,
            "result_count": len(hits),
        },
        "coverage": coverage,
        "hits": hits,
    }
    lines = [
        f'Search: "{found.query}"',
        f"Query ID: {found.query_id}",
        f"Hits: {len(hits)} ({found.took_ms:.0f} ms)",
    ]
    if not coverage["complete"]:
        done, known = coverage["files_done"], coverage["files_known"]
        lines.append(f"Still reading: {done} of {known} session files are in.")
    lines += ["", "No hits."] if not hits else []
    for shown in hits:
        lines += ["", *_hit_lines(shown)]
    return Prose(verbosity=verbosity, prose="\n".join(lines), payload=payload)


def _hit(rank: int, hit: Hit) -> dict[str, Any]:
    event = hit.event
    return {
        "rank": rank,
        "event_uid": event["event_uid"],
        "session_id": event["session_id"],
        "source_name": event["source_name"],
        "harness": event["harness"],
        "provider": event["inference_provider"],
        "score": hit.score,
        "bm25": hit.bm25,
        "matched_terms": hit.matched_terms,
        "doc_len": hit.doc_len,
        "event_class": event["event_kind"],
        "payload_type": event["payload_type"],
        "actor_role": event["actor_kind"],
        "name": event["tool_name"],
        "phase": event["tool_phase"] or event["op_status"],
        "source_ref": _source_ref(event),
        "item_id": event["item_id"],
        "event_time": iso_utc(event["event_ts"]),
        "project": event["project"],
        "session_title": hit.title,
        "text_preview": hit.snippet,
    }


def _hit_lines(hit: dict[str, Any]) -> list[str]:
    uid = hit["event_uid"]
    kind = _kind(hit["event_class"], hit["payload_type"])
    about = f"session={hit['session_id']} score={hit['score']:.4f} kind={kind}"
    lines = [f"{hit['rank']}) {about} role={hit['actor_role']}"]
    if hit["text_preview"]:
        lines.append(f"   snippet: {_one_line(hit['text_preview'])}")
    return [*lines, f"   event_uid: {uid}", f'   next: open(event_uid="{uid}")']


def open_answer(window: Window, verbosity: Verbosity) -> Prose:
    """Return the answer to open."""
    target = window.target
    if target is None:
        missing = {"found": False, "event_uid": window.event_uid, "events": []}
        prose = f"Open event: {window.event_uid}\nNot found."
        return Prose(verbosity=verbosity, prose=prose, payload=missing)
    payload = {
        "found": True,
        "event_uid": window.event_uid,
        "session_id": target["session_id"],
        "target_event_order": target["event_order"],
        "turn_seq": target["turn_seq"],
        "before": window.before,
        "after": window.after,
        "events": [_traced(event, target["doc_id"]) for event in window.events],
    }
    lines = [
        f"Open event: {window.event_uid}",
        f"Session: {target['session_id']}",
        f"Turn: {target['turn_seq']}",
        f"Context window: before={window.before} after={window.after}",
    ]
    at = target["event_order"]
    for name, wanted in (
        ("Before", [e for e in window.events if e["event_order"] < at]),
        ("Target", [target]),
        ("After", [e for e in window.events if e["event_order"] > at]),
    ):
        lines += ["", f"{name}:"]
        lines += [line for event in wanted for line in _event_lines(event)] or ["- (none)"]
    return Prose(verbosity=verbosity, prose="\n".join(lines), payload=payload)


def _traced(event: Any, target: int) -> dict[str, Any]:
    return {
        "is_target": event["doc_id"] == target,
        "session_id": event["session_id"],
        "event_uid": event["event_uid"],
        "event_order": event["event_order"],
        "turn_seq": event["turn_seq"],
        "event_time": iso_utc(event["event_ts"]),
        "actor_role": event["actor_kind"],
        "event_class": event["event_kind"],
        "payload_type": event["payload_type"],
        "call_id": event["tool_call_id"],
        "name": event["tool_name"],
        "phase": event["tool_phase"] or event["op_status"],
        "item_id": event["item_id"],
        "source_ref": _source_ref(event),
        "text_content": event["text_content"],
        "payload_json": event.get("payload_json", ""),
        "token_usage_json": _usage_json(event),
    }


def _usage_json(event: Any) -> str:
    """Return the tokens of a response, on the one event of it that carries them."""
    counts = {name: int(event.get(name, 0)) for name in _TOKENS}
    return json.dumps(counts) if any(counts.values()) else ""


def _event_lines(event: Any) -> list[str]:
    kind = _kind(event["event_kind"], event["payload_type"])
    text = _one_line(event["text_content"])
    head = f"- [{event['event_order']}] {event['actor_kind']} {kind}"
    return [head, f"  {text}"] if text else [head]


def _kind(event_class: str, payload_type: str) -> str:
    if not event_class:
        return payload_type or "event"
    if payload_type in ("", "unknown", event_class):
        return event_class
    return f"{event_class} ({payload_type})"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 3] + "..."


def _source_ref(event: Any) -> str:
    return f"{event['source_file']}:{event['source_generation']}:{event['source_line_no']}"
