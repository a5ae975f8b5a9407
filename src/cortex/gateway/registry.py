"""All tools by name. Refuses one without gate, description, a free name, or with a cached write."""

import difflib
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from cortex.errors import NotFound, ToolDefinitionError
from cortex.gateway.spec import Params, Policy, Result, ToolCall, ToolSpec

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Result)

# What every client we know accepts, dots aside; the pattern of MCP 2025-11-25.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class ToolRegistry:
    """The tools of one daemon, filled by `app.py` and then only read."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolSpec] = {}
        self._spellings: dict[str, str] = {}

    def add(
        self,
        name: str,
        handler: Callable[[P, ToolCall], Awaitable[R]],
        *,
        toolset: str,
        params: type[P],
        result: type[R],
        policy: Policy,
    ) -> None:
        """Register a tool; its handler's docstring is its description."""
        description = " ".join((handler.__doc__ or "").split())
        spec = ToolSpec(name, toolset, description, params, result, policy, handler)
        problem = self._problem(spec)
        if problem:
            raise ToolDefinitionError(f"tool {name!r} {problem}")
        self._tools[name] = spec
        self._spellings[name] = name
        self._spellings[spec.underscored] = name

    def _problem(self, spec: ToolSpec) -> str:
        policy = spec.policy
        taken = spec.name in self._spellings or spec.underscored in self._spellings
        unknown = ", ".join(sorted(policy.safe_fields - set(spec.params.model_fields)))
        problems = (
            (not _NAME.fullmatch(spec.name), f"needs a name that matches {_NAME.pattern}"),
            (taken, "takes a name that is already used"),
            (not policy.gates, "needs at least one gate"),
            (not spec.description, "needs a docstring: it is what an agent reads"),
            (policy.mutates and policy.cache, "changes something: its answers cannot be cached"),
            (unknown, f"declares safe fields it does not have: {unknown}"),
        )
        return next((problem for is_wrong, problem in problems if is_wrong), "")

    def get(self, name: str) -> ToolSpec:
        """Return the tool of this name, in either spelling."""
        known = self._spellings.get(name)
        if known is None:
            near = difflib.get_close_matches(name[:128], self._tools, n=3)
            raise NotFound("tool", name[:128], known=near)
        return self._tools[known]

    def find(self, name: str) -> ToolSpec | None:
        """Return the tool of this name in either spelling, or None."""
        known = self._spellings.get(name)
        return self._tools[known] if known else None

    def toolsets(self) -> frozenset[str]:
        """Return the names of all toolsets."""
        return frozenset(spec.toolset for spec in self._tools.values())

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(sorted(self._tools.values(), key=lambda spec: spec.name))

    def __len__(self) -> int:
        return len(self._tools)
