"""The first line of a connection: who says hello, from where, and what holds for the session."""

from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cortex.edge.relay import PROTOCOL
from cortex.errors import Conflict, InvalidParams
from cortex.home import SESSION_VARIABLES


class Hello(BaseModel):
    """What a bridge or a command says of itself; a newer one may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    protocol: int
    role: Literal["session", "cli", "control"] = "session"
    pid: int | None = None
    cwd: str | None = None
    toolsets: tuple[str, ...] | None = None
    config: str | None = None
    environ: Annotated[dict[str, str], Field(max_length=64)] = Field(default_factory=dict[str, str])
    secret: str = ""

    def session_environ(self) -> dict[str, str]:
        """Return the variables that hold for a session, and no others."""
        return {k: v for k, v in self.environ.items() if k in SESSION_VARIABLES}


def read_hello(line: bytes) -> Hello:
    """Read the first line, or say what is wrong with it."""
    try:
        hello = Hello.model_validate(orjson.loads(line)["cortex"])
    except (ValidationError, KeyError, TypeError, ValueError):
        raise InvalidParams("the first line must say hello: this is not an MCP port") from None
    if hello.protocol != PROTOCOL:
        raise Conflict(
            f"the bridge speaks version {hello.protocol} and the daemon version {PROTOCOL}",
            hint="restart it with `cortex down` and `cortex up`",
        )
    return hello
