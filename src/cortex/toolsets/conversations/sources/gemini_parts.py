"""The parts of which Gemini's protocol makes a message; Qwen writes the same."""

from typing import Any, cast

from cortex.toolsets.conversations.sources.reader import as_object, name_of, text_of

_FILES_ADDED = "--- Content from referenced files ---"


def parts_of(content: object) -> list[dict[str, Any]]:
    """Return the parts of a content, which may be one string or one part as well."""
    items = cast("list[object]", content) if isinstance(content, list) else [content]
    texts = ({"text": item} if isinstance(item, str) else as_object(item) for item in items)
    return [part for part in texts if part]


def split_prompt(
    parts: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tell what a person wrote from the files that the client put after it."""
    for index, part in enumerate(parts):
        if index and name_of(part.get("text")).lstrip().startswith(_FILES_ADDED):
            return parts[:index], parts[index:]
    return parts, []


def result_text(parts: list[dict[str, Any]]) -> str:
    """Return what a tool answered."""
    answers = [as_object(part.get("functionResponse")).get("response") for part in parts]
    return text_of([answers, [part.get("text") for part in parts]])


def is_failure(parts: list[dict[str, Any]]) -> bool:
    """Tell whether a tool answered with an error."""
    answers = (as_object(part.get("functionResponse")).get("response") for part in parts)
    return any(bool(as_object(answer).get("error")) for answer in answers)


def display_texts(display: object) -> list[str]:
    """Return what the client showed of a result; of a changed file the change, not the file."""
    if not isinstance(display, dict):
        return [text_of(display)]
    hidden = ("type", "originalContent", "newContent", "diffStat", "status")
    shown = cast("dict[str, Any]", display)
    return [text_of(value) for name, value in shown.items() if name not in hidden]


def joined(texts: list[str]) -> str:
    """Return texts below each other, without those that an earlier one holds."""
    kept = ""
    for text in texts:
        if text.strip() and text.strip() not in kept:
            kept = f"{kept}\n{text}" if kept else text
    return kept
