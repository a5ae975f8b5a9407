"""Who may call what: Cedar policies, default deny, every doubt decided against the caller."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import cedarpy

from cortex.errors import GateClosed, SettingsError
from cortex.gateway.spec import Caller, Gate, ToolSpec

_SHIPPED = "shipped policies"


@dataclass(frozen=True, slots=True)
class PolicyText:
    """Cedar policies and where they were read."""

    origin: str
    text: str


def shipped_policies() -> PolicyText:
    """Return the policies that reproduce the documented behaviour."""
    text = resources.files("cortex.gateway").joinpath("policies/shipped.cedar").read_text("utf-8")
    return PolicyText(_SHIPPED, text)


def read_policies(files: Iterable[Path]) -> list[PolicyText]:
    """Read an operator's policy files."""
    policies: list[PolicyText] = []
    for file in files:
        try:
            policies.append(PolicyText(str(file), file.read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"[policy] files: cannot read {file}: {error}") from error
    return policies


class Authorizer:
    """Decides each call by the shipped policies and the operator's."""

    def __init__(self, tools: Iterable[ToolSpec], policies: Sequence[PolicyText]) -> None:
        specs = list(tools)
        schema = json.dumps(_schema())
        for policy in policies:
            checked = cedarpy.validate_policies(policy.text, schema)  # parse errors are in it too
            if not checked.validation_passed:
                problem = _one_line(checked.errors[0].error)
                raise SettingsError(f"{policy.origin}: {problem}")
            if cedarpy.PolicySet.from_str(policy.text).templates():
                # Nothing here fills a template in: a forbid written as one would forbid nothing.
                raise SettingsError(
                    f"{policy.origin}: a template (?principal, ?resource) has no use"
                )
        self._policies = cedarpy.PolicySet.from_str("\n".join(p.text for p in policies))
        self._entities = cedarpy.Entities.from_json_str(json.dumps(_entities(specs)))

    def authorise(self, spec: ToolSpec, caller: Caller) -> None:
        """Return if every gate of the tool is open to the caller, else raise `GateClosed`."""
        for gate in sorted(spec.policy.gates):
            self._pass_gate(spec, gate, caller)

    def _pass_gate(self, spec: ToolSpec, gate: Gate, caller: Caller) -> None:
        answer = cedarpy.is_authorized(
            {
                "principal": {"type": "User", "id": caller.principal},
                "action": {"type": "Action", "id": gate.value},
                "resource": {"type": "Tool", "id": spec.name},
                "context": {
                    "allow_mutations": caller.allow_mutations,
                    "transport": caller.transport,
                    "client": caller.client,
                },
            },
            self._policies,
            self._entities,
        )
        # A policy that fails to evaluate is skipped by Cedar; if it was a forbid, skipping it would
        # open the gate, so an error closes it.
        if answer.allowed and not answer.diagnostics.errors:
            return
        forbids, names = answer.diagnostics.reasons, answer.diagnostics.id_annotations_by_reason
        if answer.diagnostics.errors:
            reason, hint = (
                "a policy could not be evaluated",
                "an operator must mend the policy files",
            )
        elif forbids:
            named = ", ".join(_one_line(names.get(policy, "without @id")) for policy in forbids)
            reason = f"policy {named} forbids it"
            hint = "an operator can change the files named in [policy] files"
        elif spec.policy.mutates and not caller.allow_mutations:
            reason = "changes are switched off in this session"
            hint = (
                "an operator can set CORTEX_MCP_ALLOW_MUTATIONS=true for this agent,"
                " or permit it in a file named in [policy] files"
            )
        else:
            reason = f"no policy opens the gate {gate.value}"
            hint = "an operator can permit it in a file named in [policy] files"
        raise GateClosed(spec.name, gate.value, reason=reason, hint=hint)


def _schema() -> dict[str, object]:
    record = {"type": "Record", "attributes": {}}
    context = {
        "type": "Record",
        "attributes": {
            "allow_mutations": {"type": "Boolean"},
            "transport": {"type": "String"},
            "client": {"type": "String"},
        },
    }
    applies = {"principalTypes": ["User"], "resourceTypes": ["Tool"], "context": context}
    tool = {"type": "Record", "attributes": {"mutates": {"type": "Boolean"}}}
    return {
        "": {
            "entityTypes": {
                "User": {"shape": record},
                "Toolset": {"shape": record},
                "Tool": {"shape": tool, "memberOfTypes": ["Toolset"]},
            },
            "actions": {gate.value: {"appliesTo": applies} for gate in Gate},
        }
    }


def _entities(specs: Sequence[ToolSpec]) -> list[dict[str, object]]:
    names = sorted({spec.toolset for spec in specs})
    toolsets: list[dict[str, object]] = [
        {"uid": {"type": "Toolset", "id": name}, "attrs": {}, "parents": []} for name in names
    ]
    tools: list[dict[str, object]] = [
        {
            "uid": {"type": "Tool", "id": spec.name},
            "attrs": {"mutates": spec.policy.mutates},
            "parents": [{"type": "Toolset", "id": spec.toolset}],
        }
        for spec in specs
    ]
    return toolsets + tools


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())[:300]
