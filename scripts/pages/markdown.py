"""What all generated pages share."""

from collections.abc import Iterable

NOTICE = "<!-- Made by scripts/docs.py from the code: change the code, then run it again. -->"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
