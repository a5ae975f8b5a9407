"""Ids, titles and tags of chunks, as the seed shows them."""

import hashlib
import re
from collections.abc import Iterable, Sequence

_PLAIN_PATH = re.compile(r"(?:\w+/)*\w+\.\w+")
_UNSAFE = re.compile(r"[^\w]+")
_MAX_NAME_CHARS = 80
_MAX_TITLE_NAMES = 6
_MAX_PATH_TAGS = 8
# Folders whose documents say why things are as they are.
_DECISIONS = frozenset({"adr", "adrs", "decisions", "design"})


def slug(path: str) -> str:
    """Return a path as part of an id: `internal/auth/handler.go` is `internal-auth-handler-go`.

    Where another path could read the same, a piece of its hash tells them apart.
    """
    plain = _UNSAFE.sub("-", path).strip("-")
    if _PLAIN_PATH.fullmatch(path) and path.isascii():
        return plain
    return f"{plain}~{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:6]}"


class Ids:
    """Gives each chunk of a file an id of its own that does not depend on line numbers."""

    def __init__(self, path: str) -> None:
        self._slug = slug(path)
        self._taken: dict[str, int] = {}

    def code(self, chunk_type: str, names: Sequence[str] = ()) -> str:
        """Return the id of a code chunk, by what it defines."""
        name = "+".join(_UNSAFE.sub(".", name).strip(".") for name in names[:2])[:_MAX_NAME_CHARS]
        return self._own(f"code-{chunk_type}-{self._slug}" + (f":{name}" if name else ""))

    def document(self, section: int, piece: int) -> str:
        """Return the id of a piece of a section."""
        return f"doc-{self._slug}-s{section}" + (f"-c{piece}" if piece else "")

    def _own(self, wanted: str) -> str:
        count = self._taken.get(wanted, 0)
        self._taken[wanted] = count + 1
        return f"{wanted}-{count + 1}" if count else wanted


def title(path: str, chunk_type: str, names: Sequence[str] = ()) -> str:
    """Return `path type`, and what of it."""
    shown = ", ".join(names[:_MAX_TITLE_NAMES])
    more = ", …" if len(names) > _MAX_TITLE_NAMES else ""
    return f"{path} {chunk_type}" + (f": {shown}{more}" if shown else "")


def tags(fixed: Iterable[str], path: str, found: Iterable[str] = ()) -> tuple[str, ...]:
    """Return all tags, each once: source, language, type, folders, and those of the document."""
    folders = [part.lower() for part in path.split("/")[:-1]][:_MAX_PATH_TAGS]
    return tuple(dict.fromkeys([*fixed, *folders, *found]))


def path_tags(path: str) -> tuple[str, ...]:
    """Return what the path of a document says of it: `architecture.md`, or a decision of it."""
    *folders, name = path.lower().split("/")
    about = ("architecture",) if _DECISIONS.intersection(folders) else ()
    return (name.partition(".")[0], *about)
