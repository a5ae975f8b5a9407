"""The HTTP provider: `POST /embed` of cortex-embed, or an OpenAI-compatible `/v1/embeddings`."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urljoin

import anyio
import httpx2
import numpy as np

from cortex.embedding.provider import EmbeddingOptions, Mode, Vectors, as_rows
from cortex.errors import Conflict, Unavailable

_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


class HttpProvider:
    """Vectors made by a service."""

    def __init__(
        self, options: EmbeddingOptions, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._options = options
        headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
        self._client = httpx2.AsyncClient(
            timeout=options.timeout_s, headers=headers, transport=transport
        )
        self._name = options.model

    async def model(self) -> str:
        """Return the model that was configured, or the one that the service says it has."""
        if not self._name and self._options.api == "openai":
            raise Conflict(
                "An OpenAI-compatible service needs the name of a model",
                hint="set [embedding] model",
            )
        if not self._name:
            url = urljoin(self._options.endpoint, "/model_info")
            self._name = str(_member(await self._asked("GET", url, None), "name"))
        return self._name

    async def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """Return a vector for each text, asking for a batch at a time."""
        size = self._options.batch_size
        batches = [list(texts[begin : begin + size]) for begin in range(0, len(texts), size)]
        rows = [await self._embedded(batch, mode) for batch in batches]
        return np.concatenate(rows)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _embedded(self, texts: list[str], mode: Mode) -> Vectors:
        options = self._options
        if options.api == "openai":
            body: dict[str, Any] = {"input": texts, "model": await self.model()}
            answer = _member(await self._asked("POST", options.endpoint, body), "data")
            ordered = sorted(cast("list[dict[str, Any]]", answer), key=lambda item: item["index"])
            values: object = [item["embedding"] for item in ordered]
        else:
            body = {"texts": texts, "mode": mode}
            values = _member(await self._asked("POST", options.endpoint, body), "embeddings")
        try:
            return as_rows(values, len(texts))
        except (TypeError, ValueError) as error:
            raise Conflict(
                f"{options.endpoint} answered with vectors that do not fit: {error}",
                hint="set [embedding] endpoint to a model of 384 dimensions",
            ) from error

    async def _asked(self, method: str, url: str, body: Mapping[str, Any] | None) -> object:
        """Ask, and ask again after a pause where that may help."""
        pause_s = _FIRST_PAUSE_S
        for attempt in range(self._options.retries + 1):
            is_last = attempt == self._options.retries
            try:
                response = await self._client.request(method, url, json=body)
            except httpx2.TransportError as error:
                if is_last:
                    reason = str(error) or type(error).__name__
                    raise Unavailable(
                        f"The embedding service {url} does not answer: {reason}"
                    ) from error
            else:
                if response.status_code not in _RETRIED or is_last:
                    return _answer(response, url)
            await anyio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  # not a secret
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        raise AssertionError("the last attempt answers or raises")


def _answer(response: httpx2.Response, url: str) -> object:
    if response.status_code != 200:
        raise Unavailable(f"The embedding service {url} answered {response.status_code}")
    try:
        return response.json()
    except ValueError as error:
        raise Unavailable(f"The embedding service {url} answered something else") from error


def _member(answer: object, name: str) -> object:
    if not isinstance(answer, dict) or name not in answer:
        raise Unavailable(f"The embedding service answered without `{name}`")
    return cast("dict[str, object]", answer)[name]
