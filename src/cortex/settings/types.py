"""The kinds of values that settings have, and the words for what each of them accepts.

A validator raises ValueError with what would be right; `faults.py` says the rest.
"""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo


@dataclass(frozen=True, slots=True)
class Unset:
    """Marks a key that may be left open, and says what then holds."""

    meaning: str


@dataclass(frozen=True, slots=True)
class Url:
    """Marks a text that may carry credentials, so that it is never shown whole."""


MASK = "********"


def masked_url(url: str) -> str:
    """Hide the credentials and the query of a URL, however broken it is."""
    credentials, at, place = url.rpartition("@")
    scheme, slashes, _ = credentials.partition("://")
    hidden = (scheme + slashes if slashes else "") + MASK if at else ""
    place, question, _ = place.partition("?")
    return hidden + at + place + (question and question + MASK)


@dataclass(frozen=True, slots=True)
class UserFolder:
    """Validation context: what a leading `~` stands for, if that is known."""

    path: str | None


def expand_user(path: str, folder: UserFolder) -> str:
    """Put the user's folder in place of a leading `~`."""
    if path != "~" and not path.startswith("~/"):
        return path
    if not folder.path:
        raise ValueError("a path without ~, as $HOME is not set")
    return folder.path + path[1:]


def _expanded(path: str, info: ValidationInfo) -> str:
    return expand_user(path, info.context) if isinstance(info.context, UserFolder) else path


def _absolute(path: str) -> str:
    # The daemon's working directory is nobody's choice, so a relative path would mean nothing.
    if "\0" in path or not (path.startswith("~/") or Path(path).is_absolute()):
        raise ValueError("an absolute path, or one that starts with ~/")
    return path


def _absolute_path(path: Path, info: ValidationInfo) -> Path:
    return Path(_absolute(_expanded(str(path), info)))


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
        raise ValueError("letters, digits and underscores, 64 at most, with no digit first")
    return name


def _cluster(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise ValueError("letters, digits, dots, dashes and underscores, 64 at most")
    return name


def _regex(pattern: str) -> str:
    # A FutureWarning marks what other engines read differently, such as nested sets: not a guess
    # to make where a secret may slip through.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ValueError(f"a regular expression that Python can read ({error})") from error
    return pattern


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        return False
    return has_place and parts.scheme in {"http", "https"} and not (parts.query or parts.fragment)


def _http_url(url: str) -> str:
    if not _is_http_url(url):
        raise ValueError("http://host:port or https://host:port")
    return url


def _store_url(url: str) -> str:
    is_embedded = url.startswith("chdb:///") and "\0" not in url
    if url and not is_embedded and not _is_http_url(url):
        raise ValueError("chdb:///absolute/path, http://host:port or https://host:port")
    return url


Name = Annotated[str, Field(min_length=1, max_length=200)]
Identifier = Annotated[str, AfterValidator(_identifier)]
ClusterName = Annotated[str, AfterValidator(_cluster)]
Glob = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_expanded)]
AbsoluteGlob = Annotated[Glob, AfterValidator(_absolute)]
AbsolutePath = Annotated[Path, Field(strict=False), AfterValidator(_absolute_path)]
Regex = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_regex)]
HttpUrl = Annotated[str, Url(), AfterValidator(_http_url)]
StoreUrl = Annotated[str, Url(), AfterValidator(_store_url)]
