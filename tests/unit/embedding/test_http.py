import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import numpy as np
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cortex.embedding.choice import Providers
from cortex.embedding.http import HttpProvider
from cortex.embedding.provider import EmbeddingOptions, Mode, Vectors
from cortex.embedding.server import embed_app
from cortex.errors import Conflict, Unavailable

pytestmark = pytest.mark.anyio


class Lengths:
    """A provider whose vectors point along the axis of a text's length."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Mode]] = []
        self.is_away = False

    async def model(self) -> str:
        return "lengths"

    async def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        if self.is_away:
            raise Unavailable("gone fishing")
        self.asked.append((list(texts), mode))
        return np.eye(384, dtype=np.float32)[[len(text) for text in texts]]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def served(app: Starlette) -> AsyncGenerator[str]:
    """Serve an app on a free port of the loopback."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listening])
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True


def provider(url: str, **more: Any) -> HttpProvider:
    return HttpProvider(EmbeddingOptions(provider="http", endpoint=url, batch_size=2, **more))


async def test_our_client_and_our_server_agree() -> None:
    lengths = Lengths()
    async with served(embed_app(lengths, max_tokens=128)) as url:
        client = provider(f"{url}/embed")
        vectors = await client.embed(["a", "bb", "ccc"], "query")
        assert await client.model() == "lengths"
        await client.close()
    assert np.argmax(vectors, axis=1).tolist() == [1, 2, 3]
    assert lengths.asked == [(["a", "bb"], "query"), (["ccc"], "query")]


async def test_a_client_of_project_cortex_finds_what_it_expects() -> None:
    async with served(embed_app(Lengths(), max_tokens=128)) as url, httpx2.AsyncClient() as client:
        known = {"dimensions": 384, "max_tokens": 128}
        assert (await client.get(url)).json() == {"status": "ok", "model": "lengths", **known}
        assert (await client.get(f"{url}/model_info")).json() == {"name": "lengths", **known}
        answer = await client.post(f"{url}/embed", json={"texts": ["abc"]})
        assert answer.status_code == 200
        assert list(answer.json()) == ["embeddings"]
        assert len(answer.json()["embeddings"][0]) == 384
        empty = await client.post(f"{url}/embed", json={"texts": []})
        assert empty.json() == {"embeddings": []}


@pytest.mark.parametrize("body", ['{"mode": "query"}', '{"texts": ["a"], "mode": "poem"}', "["])
async def test_what_is_not_the_contract_is_a_422(body: str) -> None:
    async with served(embed_app(Lengths(), max_tokens=128)) as url, httpx2.AsyncClient() as client:
        answer = await client.post(f"{url}/embed", content=body)
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"][0] == "body"


async def test_a_provider_that_is_away_is_a_503() -> None:
    lengths = Lengths()
    lengths.is_away = True
    async with served(embed_app(lengths, max_tokens=128)) as url, httpx2.AsyncClient() as client:
        answer = await client.post(f"{url}/embed", json={"texts": ["abc"]})
        assert (answer.status_code, answer.json()) == (503, {"detail": "gone fishing"})


async def test_an_openai_service_is_asked_its_own_way() -> None:
    asked: list[Any] = []

    async def embeddings(request: Request) -> Response:
        asked.append((await request.json(), request.headers["authorization"]))
        rows = np.eye(384)[[1, 2]].tolist()
        data = [{"index": n, "embedding": row} for n, row in enumerate(rows)]
        return JSONResponse({"data": data[::-1]})

    app = Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])
    async with served(app) as url:
        client = provider(f"{url}/v1/embeddings", api="openai", model="small", api_key="k")
        vectors = await client.embed(["a", "b"], "passage")
        assert await client.model() == "small"
        await client.close()
    assert asked == [({"input": ["a", "b"], "model": "small"}, "Bearer k")]
    assert np.argmax(vectors, axis=1).tolist() == [1, 2]


async def test_a_busy_service_is_asked_again() -> None:
    count = 0

    async def embed(_request: Request) -> Response:
        nonlocal count
        count += 1
        if count < 3:
            return Response(status_code=503)
        return JSONResponse({"embeddings": np.eye(384)[[5]].tolist()})

    app = Starlette(routes=[Route("/embed", embed, methods=["POST"])])
    async with served(app) as url:
        client = provider(f"{url}/embed", retries=2)
        assert np.argmax(await client.embed(["a"], "query")) == 5
        count = 0
        impatient = provider(f"{url}/embed", retries=1)
        with pytest.raises(Unavailable, match="answered 503"):
            await impatient.embed(["a"], "query")
        await client.close()
        await impatient.close()


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ({"embeddings": [[1.0, 2.0]]}, Conflict, r"\(1, 2\) where \(1, 384\)"),
        ({"embeddings": [[0.0] * 384]}, Conflict, "without direction"),
        ({"embeddings": "no"}, Conflict, "do not fit"),
        ({"vectors": []}, Unavailable, "without `embeddings`"),
        ([], Unavailable, "without `embeddings`"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused(
    answer: Any, error: type[Exception], said: str
) -> None:
    async def embed(_request: Request) -> Response:
        return JSONResponse(answer)

    app = Starlette(routes=[Route("/embed", embed, methods=["POST"])])
    async with served(app) as url:
        client = provider(f"{url}/embed")
        with pytest.raises(error, match=said):
            await client.embed(["a"], "query")
        await client.close()


async def test_a_service_that_is_away_is_said_with_its_address() -> None:
    client = provider("http://127.0.0.1:9/embed", retries=0, timeout_s=2.0)
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:9/embed does not answer"):
        await client.embed(["a"], "query")
    await client.close()


async def test_a_session_may_name_an_endpoint_of_its_own() -> None:
    lengths = Lengths()
    providers = Providers(EmbeddingOptions(provider="none"))
    async with served(embed_app(lengths, max_tokens=128)) as url:
        assert providers.of_session({}) is None
        environ = {"CORTEX_EMBEDDING_ENDPOINT": f"{url}/embed"}
        chosen = providers.of_session(environ)
        assert chosen is not None
        assert await chosen.model() == "lengths"
        assert providers.of_session(environ) is chosen
        for number in range(20):
            providers.of_session({"CORTEX_EMBEDDING_ENDPOINT": f"http://127.0.0.1:9/{number}"})
        assert providers.of_session(environ) is not chosen
        await providers.close()
