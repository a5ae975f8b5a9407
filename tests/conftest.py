"""Fixtures for all tests."""

from collections.abc import Iterator

import pytest

import harness


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def box() -> Iterator[harness.Sandbox]:
    """A home of its own with real processes on it."""
    yield from harness.sandbox()
