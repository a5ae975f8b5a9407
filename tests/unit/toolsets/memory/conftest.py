"""Memory on a real SQLite file, with a clock one can move."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.state.database import Database
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.evidence import EvidenceCheck
from cortex.toolsets.memory.files import ProjectFiles
from cortex.toolsets.memory.memories import Memories
from fakes import CountedIds, FakeClock
from remembering import PastSessions, find_secrets


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def past() -> PastSessions:
    return PastSessions()


@pytest.fixture
def memories(tmp_path: Path, clock: FakeClock, past: PastSessions) -> Iterator[Memories]:
    """Every service of memory around one file."""
    database = Database.open(str(tmp_path / "state.db"))
    core = Core(
        database=database,
        clock=clock,
        ids=CountedIds(),
        checks=EvidenceCheck(files=ProjectFiles(), conversations=past),
        find_secrets=find_secrets,
    )
    core.open()
    yield Memories(core)
    database.close()
