"""The page of all tools: what is published, and the conditions each runs under."""

import json
import tempfile
from typing import Any, cast

from cortex.app import open_memories, tool_registry
from cortex.clock import RandomIds, SystemClock
from cortex.edge.schema import published_schema
from cortex.gateway.spec import ToolSpec
from cortex.settings.models import Settings
from cortex.state.database import Database
from cortex.toolsets.code.service import CodeService
from cortex.toolsets.conversations.service import ConversationsService
from cortex.toolsets.operations.service import CpuHistory, OperationsService
from pages.markdown import NOTICE, table

INTRO = """\
What an agent may call. `tools/list` publishes the same schemas; a dotted name may also be written
with underscores. Where a limit is not named here, that of `[limits]` in the settings holds."""


def tools_page() -> str:
    """Every tool with its schemas and conditions."""
    clock = SystemClock()
    # Declared, not run: no store is needed to say what the tools are.
    conversations = cast("ConversationsService", None)
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(f"{folder}/state.db")
        registry = tool_registry(
            Settings(),
            OperationsService(clock, CpuHistory(clock), list),
            conversations,
            CodeService(clock, lambda _environ: None),
            open_memories(Settings(), database, clock, RandomIds()),
            coverage=dict[str, Any],
        )
        database.close()
    parts = ["# Tools", NOTICE, INTRO]
    for toolset in sorted(registry.toolsets()):
        parts.append(f"## {toolset}")
        for spec in registry:
            if spec.toolset == toolset:
                parts += [f"### {spec.name}", spec.description, _conditions(spec), *_schemas(spec)]
    return "\n\n".join(parts) + "\n"


def _conditions(spec: ToolSpec) -> str:
    policy = spec.policy
    rows = [
        ("gates", ", ".join(f"`{gate.value}`" for gate in sorted(policy.gates))),
        ("changes something", "yes" if policy.mutates else "no"),
    ]
    if policy.limit:
        rows.append(("rate limit", f"{policy.limit.calls} in {policy.limit.per_s:g} s"))
    if policy.timeout_s:
        rows.append(("time limit", f"{policy.timeout_s:g} s"))
    if policy.cache:
        rows.append(("cached for", f"{policy.cache.ttl_s:g} s"))
    return table(("", ""), rows)


def _schemas(spec: ToolSpec) -> list[str]:
    return [
        f"{word}:\n\n```json\n{json.dumps(schema, indent=2)}\n```"
        for word, schema in (
            ("Arguments", published_schema(spec.params, "validation")),
            ("Result", published_schema(spec.result, "serialization")),
        )
    ]
