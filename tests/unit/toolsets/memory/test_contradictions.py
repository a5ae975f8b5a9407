import pytest

from cortex.toolsets.memory.contradictions import opposition, statement


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        ("The cache is safe to delete", "The cache is not safe to delete", "negated"),
        ("We run migrations at start", "We no longer run migrations at start", "negated"),
        ("Enable strict mode in CI", "Disable strict mode in CI", "opposite"),
        ("Always run the linter first", "Never run the linter first", "negated"),
        ("The API listens on port 8080", "The API listens on port 9090", "different value"),
        ("The database is PostgreSQL", "The database is MySQL", "different value"),
        ("The build uses pnpm, never npm", "The build uses yarn", "different value"),
        ("retries = 3", "retries = 5", "different value"),
    ],
)
def test_claims_that_exclude_each_other_are_found(one: str, other: str, how: str) -> None:
    assert opposition(statement(one), statement(other)) == how
    assert opposition(statement(other), statement(one)) == how


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The database is PostgreSQL", "The database is PostgreSQL 16"),
        ("The database is PostgreSQL", "The cache is Redis"),
        ("The build does not use yarn", "The build uses pnpm"),
        ("Run the linter first", "The office has a blue door"),
        ("Never disable strict mode in CI", "Always enable strict mode in CI"),
        ("The API listens on port 8080", "The API listens on port 8080"),
        ("Tests live in tests/unit", "Tests are slow on Windows"),
        ("Fact 1 of the house", "Fact 2 of the house"),
        ("Server 1 listens on port 80", "Server 2 listens on port 81"),
        ("Step 3 of the release is to tag", "Step 4 of the release is to publish"),
    ],
)
def test_claims_that_can_both_hold_are_left_alone(one: str, other: str) -> None:
    assert opposition(statement(one), statement(other)) is None
