"""Commands of a person about code: a project was indexed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cortex.app import App
from cortex.edge.socket_server import Tell
from cortex.errors import CortexError, InvalidParams


class CodeCommands:
    """Answers in plain JSON."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def refresh(self, arguments: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        """Open a project whose chunks are new, so that vectors begin; say which model makes them.

        `model` is empty where none is in use, or where it cannot be asked now.
        """
        folder = Path(str(arguments.get("folder") or ""))
        if not folder.is_absolute():
            raise InvalidParams("folder: the absolute path of a folder with chunk files")
        folder = folder.resolve()
        await self._app.code.open(folder)
        self._app.vectors.retry(folder)
        provider = self._app.providers.of_session({})
        if provider is None:
            return {"model": "", "problem": ""}
        try:
            return {"model": await provider.model(), "problem": ""}
        except CortexError as error:
            return {"model": "", "problem": str(error)}
