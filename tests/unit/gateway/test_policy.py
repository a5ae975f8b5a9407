from dataclasses import replace
from pathlib import Path

import pytest

from cortex.errors import GateClosed, SettingsError
from cortex.gateway.policy import Authorizer, PolicyText, read_policies, shipped_policies
from cortex.gateway.spec import Caller, Gate, Policy
from fakes import ALICE, READS, WRITER, WRITES, registry_of, say

BOTH = Policy(gates=frozenset({Gate.SYSTEM_READ, Gate.SYSTEM_MUTATE}))
TOOLS = registry_of(("t.read", say, READS), ("t.write", say, WRITES), ("t.both", say, BOTH))


def authorizer(*texts: str) -> Authorizer:
    operator = [PolicyText("operator.cedar", text) for text in texts]
    return Authorizer(TOOLS, [shipped_policies(), *operator])


def refusal(tool: str, caller: Caller, *texts: str) -> GateClosed:
    with pytest.raises(GateClosed) as caught:
        authorizer(*texts).authorise(TOOLS.get(tool), caller)
    return caught.value


def test_reads_are_allowed_by_default() -> None:
    authorizer().authorise(TOOLS.get("t.read"), ALICE)
    authorizer().authorise(TOOLS.get("t.both"), ALICE)


def test_changes_need_the_switch_of_the_session() -> None:
    authorizer().authorise(TOOLS.get("t.write"), WRITER)
    error = refusal("t.write", ALICE)
    assert error.message == "t.write is not allowed: changes are switched off in this session"
    assert "CORTEX_MCP_ALLOW_MUTATIONS=true" in error.hint
    assert error.details["gate"] == "system.mutate"


def test_without_any_policy_everything_is_denied() -> None:
    nothing = Authorizer(TOOLS, [])
    with pytest.raises(GateClosed, match=r"no policy opens the gate system\.read"):
        nothing.authorise(TOOLS.get("t.read"), WRITER)


def test_an_operator_can_permit_a_change_without_the_switch() -> None:
    permit = 'permit (principal == User::"uid:1000", action, resource == Tool::"t.write");'
    authorizer(permit).authorise(TOOLS.get("t.write"), ALICE)
    other = replace(ALICE, principal="uid:1001")
    assert "switched off" in refusal("t.write", other, permit).message


@pytest.mark.parametrize(
    "scope",
    [
        'principal == User::"uid:1000", action, resource',
        'principal, action == Action::"system.read", resource',
        'principal, action, resource == Tool::"t.read"',
        'principal, action, resource in Toolset::"test"',
    ],
)
def test_an_operator_can_forbid_by_user_gate_tool_or_toolset(scope: str) -> None:
    error = refusal("t.read", WRITER, f'@id("house rule") forbid ({scope});')
    assert error.message == "t.read is not allowed: policy house rule forbids it"
    assert error.details["gate"] == "system.read"


def test_an_operator_can_forbid_by_transport_and_client() -> None:
    text = 'forbid (principal, action, resource) when { context.transport == "http" };'
    authorizer(text).authorise(TOOLS.get("t.read"), ALICE)
    refusal("t.read", replace(ALICE, transport="http"), text)
    text = 'forbid (principal, action, resource) when { context.client like "claude*" };'
    refusal("t.read", ALICE, text)


def test_a_forbid_outweighs_a_permit() -> None:
    permit, forbid = (f"{word} (principal, action, resource);" for word in ("permit", "forbid"))
    refusal("t.read", WRITER, permit, forbid)


def test_each_gate_of_a_tool_must_be_open() -> None:
    for gate in BOTH.gates:
        text = f'forbid (principal, action == Action::"{gate}", resource);'
        assert refusal("t.both", WRITER, text).details["gate"] == gate


def test_a_forbid_without_a_name_is_still_called_a_forbid() -> None:
    """Cedar names policies by @id only; the hint must not say that a permit would help."""
    for tool in ("t.read", "t.write"):
        error = refusal(tool, ALICE, "forbid (principal, action, resource);")
        assert error.message.endswith("policy without @id forbids it")


def test_the_name_of_a_policy_cannot_break_the_line() -> None:
    text = '@id("two\\nlines") forbid (principal, action, resource);'
    assert "policy two lines forbids it" in str(refusal("t.read", ALICE, text))


@pytest.mark.parametrize("effect", ["permit", "forbid"])
def test_a_policy_that_cannot_be_evaluated_closes_the_gate(effect: str) -> None:
    """Cedar skips it; a skipped forbid would open the gate."""
    overflow = f"{effect} (principal, action, resource) when {{ 9223372036854775807 + 1 == 0 }};"
    error = refusal("t.read", WRITER, overflow)
    assert error.message.endswith("a policy could not be evaluated")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("forbid (principal, action, resource", "parse error"),
        ("let me in", "parse error"),
        ('forbid (principal, action == Action::"system.raed", resource);', "system.raed"),
        ('forbid (principal == Group::"all", action, resource);', "Group"),
        ("permit (principal, action, resource) when { context.is_admin };", "is_admin"),
        ("permit (principal, action, resource) when { resource.owner == 1 };", "owner"),
        ("forbid (principal == ?principal, action, resource);", "template"),
    ],
)
def test_a_policy_that_is_wrong_stops_the_start_with_one_line(text: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        authorizer(text)
    line = str(caught.value)
    assert line.startswith("operator.cedar: ")
    assert says in line
    assert "\n" not in line


def test_policy_files_are_read_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "house.cedar"
    file.write_text("forbid (principal, action, resource); // no newline after this")
    (policy,) = read_policies([file])
    assert policy.origin == str(file)
    Authorizer(TOOLS, [policy, shipped_policies()])


def test_a_policy_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    binary = tmp_path / "binary.cedar"
    binary.write_bytes(b"\xff\xfe")
    for file in (tmp_path / "missing.cedar", tmp_path, binary):
        with pytest.raises(SettingsError, match=r"^\[policy\] files: cannot read "):
            read_policies([file])
