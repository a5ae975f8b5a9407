"""Puts the indexer together for `cortex index`: it runs in that process, without a daemon."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cortex.errors import CortexError
from cortex.home import Home
from cortex.toolsets.code.indexing.chunk_files import read_head
from cortex.toolsets.code.indexing.indexer import Indexer, Progress, Report
from cortex.toolsets.code.indexing.project import ProjectSettings, read_project
from cortex.toolsets.code.models import CHUNK_FILES

__all__ = ["Progress", "ProjectIndex", "Report", "configured_model"]


class ProjectIndex:
    """One project and its chunk files. Its settings are read again before each round."""

    def __init__(self, root: Path, chosen_dir: str | None) -> None:
        self._root = root
        self._chosen_dir = chosen_dir
        self._settings: ProjectSettings | None = None
        self._indexer: Indexer | None = None
        self.folder = root

    def run(self, tell: Callable[[Progress], None] = lambda _: None) -> Report:
        """Bring the chunk files up to date once."""
        settings = read_project(self._root)
        if self._indexer is None or settings != self._settings:
            self._settings = settings
            self.folder = settings.chunks_dir(self._root, self._chosen_dir)
            self._indexer = Indexer(self._root, self.folder, settings)
        return self._indexer.run(tell)

    def model_of_vectors(self) -> str:
        """Return the model that made the vectors of the chunks, or nothing if there are none."""
        heads = (read_head(self.folder / name) for name in CHUNK_FILES.values())
        return next((head.model for head in heads if head is not None and head.model), "")

    def drop_vectors(self) -> int:
        """Have every chunk embedded again by whichever model is in use; returns how many."""
        from cortex.toolsets.code.indexing.vectors import drop  # noqa: PLC0415  # only if asked

        return drop(self.folder)

    def watch(
        self,
        tell: Callable[[Progress], None],
        complain: Callable[[str], None],
        stop: threading.Event,
    ) -> Iterator[Report]:
        """Yield a report after each round, for as long as files change.

        What goes wrong in a round is said, and the next change tries again.
        """
        from cortex.toolsets.code.indexing.watch import changes  # noqa: PLC0415  # only if asked

        for _ in changes(self._root, stop, complain):
            try:
                report = self.run(tell)
            except CortexError as error:
                complain(str(error))
                continue
            yield report


def configured_model(environ: Mapping[str, str]) -> str:
    """Return the model that would embed now, for whoever has no daemon to ask.

    Nothing where there is none, or where only a service knows.
    """
    # Imported here: only chunks that have vectors are asked about, and settings take a while.
    from cortex.embedding.weights import PACKAGED_NAME, model_in  # noqa: PLC0415
    from cortex.settings.load import load_settings  # noqa: PLC0415

    home = Path(Home.from_environ(environ).root)
    chosen = load_settings(home=home, config=None, environ=environ).settings.embedding
    if chosen.provider == "local":
        return model_in(chosen.model_dir).name if chosen.model_dir else PACKAGED_NAME
    return (chosen.model or "") if chosen.provider == "http" else ""
