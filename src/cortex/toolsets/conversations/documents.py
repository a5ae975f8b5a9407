"""What search knows of every document before it reads it: columns in memory, 45 bytes each.

Snapshots: one is never changed, the next is made beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortex.toolsets.conversations.ingest.values import POSITION_BITS, session_hash
from cortex.toolsets.conversations.ranking import RANKED

Ints = NDArray[np.uint64]
Places = NDArray[np.intp]

# Columns of the statement that reads documents, and their widths in its answer.
ROW = np.dtype(
    [
        ("doc_id", "<u8"),
        ("batch", "<u8"),
        ("session", "<u8"),
        ("class", "u1"),
        ("doc_len", "<u4"),
        ("at_ms", "<i8"),
        ("position", "<u4"),
        ("said", "<u8"),
        ("harness", "<u8"),
        ("event_kind", "<u8"),
        ("project", "<u8"),
    ]
)
NAMED = ("harness", "event_kind", "project")
_CODED = ("session", *NAMED)
_WIDTHS = {name: ROW[name] for name in ("doc_id", "class", "doc_len", "at_ms", "position")} | {
    "said": np.dtype("<u4"),
    "session": np.dtype("<u4"),
    "harness": np.dtype("<u2"),
    "event_kind": np.dtype("<u2"),
    "project": np.dtype("<u4"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a search is narrowed to; an empty one says nothing."""

    classes: tuple[int, ...]
    session_id: str = ""
    harness: str = ""
    project: str = ""
    since: datetime | None = None
    until: datetime | None = None
    event_kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Documents:
    """All documents by number; `ranked`, `words` and those of sessions count the ranked ones."""

    columns: Mapping[str, NDArray[Any]] = field(
        default_factory=lambda: {name: np.empty(0, width) for name, width in _WIDTHS.items()}
    )
    codes: Mapping[str, Mapping[int, int]] = field(
        default_factory=lambda: {name: {} for name in _CODED}
    )
    names: Mapping[int, str] = field(default_factory=dict[int, str])  # what hashes stand for
    last_batch: int = 0
    ranked: int = 0
    words: int = 0
    session_words: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    sessions: int = 0  # that have a ranked event
    # Ranked documents in the order of their streams: keys in which neighbours differ by one.
    keys: Ints = field(default_factory=lambda: np.empty(0, np.uint64))
    key_places: Places = field(default_factory=lambda: np.empty(0, np.intp))

    def __len__(self) -> int:
        return len(self.columns["doc_id"])

    def with_rows(self, rows: NDArray[Any], names: Mapping[int, str]) -> "Documents":
        """Return these and some more."""
        codes = {name: dict(known) for name, known in self.codes.items()}
        fresh = {
            name: (_coded(rows[name], codes[name]) if name in _CODED else rows[name]).astype(width)
            for name, width in _WIDTHS.items()
        }
        order = np.argsort(fresh["doc_id"], kind="stable")
        places = np.searchsorted(self.columns["doc_id"], fresh["doc_id"][order])
        columns = {
            name: np.insert(self.columns[name], places, fresh[name][order]) for name in _WIDTHS
        }
        is_ranked = columns["class"] <= RANKED
        keys, key_places = _in_streams(columns)
        session_words = np.bincount(
            columns["session"],
            np.where(is_ranked, columns["doc_len"], 0),
            minlength=len(codes["session"]),
        )
        return replace(
            self,
            columns=columns,
            codes=codes,
            names={**self.names, **names},
            last_batch=max(self.last_batch, int(rows["batch"].max(initial=0))),
            ranked=int(np.count_nonzero(is_ranked)),
            words=int(session_words.sum()),
            session_words=session_words,
            sessions=int(np.count_nonzero(session_words)),
            keys=keys,
            key_places=key_places,
        )

    def places(self, doc_ids: Ints) -> tuple[Places, NDArray[np.bool_]]:
        """Return where these documents stand, and which of them are there at all."""
        known = self.columns["doc_id"]
        if not len(known):
            return np.zeros(len(doc_ids), np.intp), np.zeros(len(doc_ids), np.bool_)
        places = np.minimum(np.searchsorted(known, doc_ids), len(known) - 1)
        return places, known[places] == doc_ids

    def passing(self, places: Places, filters: Filters) -> NDArray[np.bool_]:
        """Tell which of these documents a search may find."""
        is_wanted = np.zeros(256, np.bool_)
        is_wanted[list(filters.classes)] = True
        keep = is_wanted[self.columns["class"][places]]
        if filters.session_id:
            code = self.codes["session"].get(session_hash(filters.session_id), -1)
            keep &= self.columns["session"][places] == code
        for name, is_meant in (
            ("harness", _is_one_of([filters.harness] if filters.harness else [])),
            ("event_kind", _is_one_of(filters.event_kinds)),
            ("project", _is_below(filters.project)),
        ):
            if is_meant is not None:
                codes = [
                    code
                    for hashed, code in self.codes[name].items()
                    if is_meant(self.names.get(hashed, ""))
                ]
                keep &= np.isin(self.columns[name][places], codes)
        if filters.since is not None:
            keep &= self.columns["at_ms"][places] >= _milliseconds(filters.since)
        if filters.until is not None:
            keep &= self.columns["at_ms"][places] < _milliseconds(filters.until)
        return keep

    def neighbours(self, places: Places, step: int) -> tuple[Places, NDArray[np.bool_]]:
        """Return the ranked event before or after each of these, and which of them have one."""
        if not len(self.keys):
            return np.zeros(len(places), np.intp), np.zeros(len(places), np.bool_)
        position = self.columns["position"][places]
        wanted = _stream_keys(self.columns["doc_id"][places], position) + np.uint64(step % 2**64)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return self.key_places[at], (self.keys[at] == wanted) & (position > 0)


def _stream_keys(doc_ids: Ints, positions: NDArray[np.uint32]) -> Ints:
    bits = np.uint64(POSITION_BITS)
    return (doc_ids >> bits << bits) | positions.astype(np.uint64)


def _in_streams(columns: Mapping[str, NDArray[Any]]) -> tuple[Ints, Places]:
    places = np.flatnonzero(columns["position"])
    keys = _stream_keys(columns["doc_id"][places], columns["position"][places])
    order = np.argsort(keys, kind="stable")  # nearly in order already
    return keys[order], places[order]


def _coded(hashes: Ints, codes: dict[int, int]) -> NDArray[np.uint64]:
    """Return small numbers for these hashes; new ones are added to `codes`."""
    distinct, inverse = np.unique(hashes, return_inverse=True)
    numbers = [codes.setdefault(int(hashed), len(codes)) for hashed in distinct]
    return np.array(numbers, dtype=np.uint64)[inverse]


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _is_one_of(wanted: Sequence[str]) -> Callable[[str], bool] | None:
    return frozenset(wanted).__contains__ if wanted else None


def _is_below(folder: str) -> Callable[[str], bool] | None:
    bare = folder.rstrip("/")
    if not folder:
        return None
    return lambda name: name == bare or name.startswith(f"{bare}/")
