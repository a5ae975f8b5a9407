"""Every service of memory, wired around one core."""

from cortex.toolsets.memory import queries
from cortex.toolsets.memory.core import Core
from cortex.toolsets.memory.exchange import Exchange
from cortex.toolsets.memory.notes import Notes
from cortex.toolsets.memory.principles import MAX_MEMORIES, Principle, principles
from cortex.toolsets.memory.proof import Prover
from cortex.toolsets.memory.review import Review
from cortex.toolsets.memory.service import MemoryService
from cortex.toolsets.memory.sessions import Sessions
from cortex.toolsets.memory.upkeep import Upkeep


class Memories:
    """Every service of memory around one core."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.service = MemoryService(core)
        self.notes = Notes(core)
        self.review = Review(core, self.notes)
        self.sessions = Sessions(core, self.notes)
        self.upkeep = Upkeep(core)
        self.prover = Prover(core)
        self.exchange = Exchange(core)

    async def principles(self) -> list[Principle]:
        """Return principles and candidates for them among what was reviewed."""
        reviewed = await self.core.database.read(
            lambda connection: queries.of_status(
                connection, "active", trust="reviewed", limit=MAX_MEMORIES
            )
        )
        return principles([memory for _, memory in reviewed])
