"""The command `cortex-embed`: serve the local model on the loopback until told to stop."""

import argparse
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import uvicorn

from cortex.embedding.choice import options_of
from cortex.embedding.local import LocalProvider
from cortex.embedding.provider import EmbeddingOptions
from cortex.embedding.server import HOST, PORT, embed_app
from cortex.errors import CortexError, Unavailable
from cortex.home import Home
from cortex.settings.load import load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service; returns the exit code."""
    parser = argparse.ArgumentParser(prog="cortex-embed", description="Serve text embeddings.")
    parser.add_argument("--port", type=int, default=PORT, help="the port on 127.0.0.1")
    parser.add_argument("--model-dir", type=Path, help="a folder with model.onnx, tokenizer.json")
    parser.add_argument("--config", type=Path, help="the configuration file, for its [embedding]")
    chosen = parser.parse_args(arguments)
    try:
        anyio.run(serve, _options(chosen.config, chosen.model_dir), chosen.port)
    except CortexError as error:
        sys.stderr.write(f"cortex-embed: {error}\n")
        return 1
    return 0


def _options(config: Path | None, model_dir: Path | None) -> EmbeddingOptions:
    home = Path(Home.from_environ(os.environ).root)
    settings = load_settings(home=home, config=config, environ=os.environ).settings
    options = options_of(settings.embedding)
    return replace(options, model_dir=model_dir) if model_dir else options


async def serve(options: EmbeddingOptions, port: int) -> None:
    """Serve until SIGINT or SIGTERM; fails before it listens if there is no model."""
    provider = LocalProvider(options)
    try:
        await provider.embed(["ready"], "query")
        app = embed_app(provider, max_tokens=options.max_tokens)
        server = _Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        with _listening(port) as listening:
            async with anyio.create_task_group() as group:
                group.start_soon(_obey_signals, server)
                await server.serve(sockets=[listening])
                group.cancel_scope.cancel()
    finally:
        await provider.close()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise Unavailable(
            f"{HOST}:{port} cannot be used: {os.strerror(error.errno or 0)}"
        ) from error


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to us: uvicorn would send itself the signal again at its end."""
        yield


async def _obey_signals(server: uvicorn.Server) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        await anext(signals)
        server.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
