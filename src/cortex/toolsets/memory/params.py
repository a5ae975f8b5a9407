"""What the memory tools take, and how evidence is written in a call."""

import re
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cortex.errors import InvalidParams
from cortex.gateway.spec import Params
from cortex.toolsets.memory.models import (
    MAX_CLAIM_CHARS,
    MAX_EVIDENCE,
    MAX_TAGS,
    Evidence,
    OutcomeResult,
    Status,
    Trust,
)
from cortex.toolsets.memory.sessions import MAX_EVENTS

Scope = Literal["project", "global", "all"]
_Sized = TypeVar("_Sized", str, list[str])

_CITED = re.compile(r"(event|file|commit):(\S.*)", re.DOTALL)
_LINES = re.compile(r"(?P<path>.+?)#L(?P<start>\d{1,7})(?:-L?(?P<end>\d{1,7}))?")
_MAX_EVIDENCE_CHARS = 1000


def _at_most(count: int) -> AfterValidator:
    """Bound a text or a list without spending tokens of `tools/list` on it."""

    def check(value: _Sized) -> _Sized:
        if len(value) > count:
            raise ValueError(f"at most {count} of it")
        return value

    return AfterValidator(check)


Id = Annotated[str, _at_most(64), Field(description="Memory id.")]
Ids = Annotated[list[str], _at_most(50), Field(min_length=1, description="Memory ids.")]
Tags = Annotated[list[str], _at_most(MAX_TAGS), Field(description="Domains.")]
AllTags = Annotated[list[str], _at_most(MAX_TAGS), Field(description="All of these.")]
Claim = Annotated[str, _at_most(MAX_CLAIM_CHARS), Field(description="One statement, 2000 chars.")]
Cited = Annotated[
    list[str],
    _at_most(MAX_EVIDENCE),
    Field(description="event:UID, file:PATH#L3-L9, commit:SHA, or words."),
]
Code = Annotated[
    str, _at_most(32), Field(default_factory=str, description="A person's approval code.")
]
Words = Annotated[str, _at_most(4000)]


class _Reads(Params):
    clamps: ClassVar[bool] = True


class NoteParams(Params):
    claim: Claim
    evidence: Cited = Field(default_factory=list[str])
    tags: Tags = Field(default_factory=list[str])
    confidence: Annotated[float, Field(ge=0, le=1, description="How sure.")] = 0.8
    scope: Annotated[Literal["project", "global"], Field(description="Where it holds.")] = "project"


class SearchParams(_Reads):
    query: Annotated[Words, Field(description="Words or a question.")]
    tags: AllTags = Field(default_factory=list[str])
    limit: Annotated[int, Field(ge=1, le=50, description="Most hits.")] = 10
    trust: Annotated[Trust | None, Field(description="Only these.")] = None
    scope: Annotated[Scope, Field(description="project: with global.")] = "project"


class GetParams(Params):
    id: Id


class ListParams(_Reads):
    tags: AllTags = Field(default_factory=list[str])
    status: Annotated[Status | None, Field(description="Only these.")] = None
    trust: Annotated[Trust | None, Field(description="Only these.")] = None
    project: Annotated[str | None, Field(description="A folder; empty: global ones.")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="Page size.")] = 20
    offset: Annotated[int, Field(ge=0, description="Skip.")] = 0


class AcceptParams(Params):
    id: Id
    code: Code


class RejectParams(AcceptParams):
    reason: Annotated[Words, Field(description="Why.")]


class SupersedeParams(AcceptParams):
    claim: Claim
    evidence: Cited = Field(default_factory=list[str])


class OutcomeParams(Params):
    id: Id
    result: Annotated[OutcomeResult, Field(description="Did it help?")]
    session: Annotated[
        str, _at_most(128), Field(default_factory=str, description="Default: this one.")
    ]


class TagParams(Params):
    id: Id
    tags: Annotated[list[str], _at_most(MAX_TAGS), Field(description="Tags.")]


class NoParams(Params):
    pass


class ContextParams(_Reads):
    task: Annotated[Words, Field(description="What is to be done.")]
    max_tokens: Annotated[int, Field(ge=64, le=32_768, description="Budget.")] = 4096
    tags: AllTags = Field(default_factory=list[str])


class SuggestParams(_Reads):
    query: Annotated[Words, Field(default_factory=str, description="Words, if any.")]
    limit: Annotated[int, Field(ge=1, le=20, description="Most.")] = 3


class EventIn(BaseModel):
    """One event of a session; agents send more fields than we read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: Annotated[str, _at_most(256)]
    role: Annotated[str, _at_most(32)]
    text: str


class CloseParams(Params):
    events: Annotated[list[EventIn], Field(max_length=MAX_EVENTS, description="In order; 1 MiB.")]


class CommitParams(Params):
    ids: Ids
    code: Code


class ReflectParams(Params):
    session: Annotated[
        str, _at_most(128), Field(default_factory=str, description="Default: the newest.")
    ]


class PrinciplesParams(_Reads):
    view: Annotated[Literal["list", "status", "candidates"], Field(description="What to show.")] = (
        "list"
    )
    id: Annotated[str, _at_most(64), Field(default_factory=str, description="Only this one.")]
    limit: Annotated[int, Field(ge=1, le=50, description="Most.")] = 10


def evidence_of(cited: list[str]) -> tuple[Evidence, ...]:
    """Read evidence as a call writes it."""
    return tuple(_evidence(text.strip()) for text in cited if text.strip())


def _evidence(text: str) -> Evidence:
    if len(text) > _MAX_EVIDENCE_CHARS:
        raise InvalidParams(f"evidence: at most {_MAX_EVIDENCE_CHARS} characters each")
    match = _CITED.fullmatch(text)
    if match is None:
        return Evidence(kind="text", ref=text)
    kind, ref = match.groups()
    if kind == "event":
        return Evidence(kind="event", ref=ref)
    if kind == "commit":
        return Evidence(kind="commit", ref=ref)
    lines = _LINES.fullmatch(ref)
    if lines is None:
        return Evidence(kind="file", ref=ref)
    start = int(lines["start"])
    end = int(lines["end"] or start)
    if not 1 <= start <= end:
        raise InvalidParams(f"evidence: lines go from 1 upwards, not {start} to {end}")
    return Evidence(kind="file", ref=lines["path"], start=start, end=end)
