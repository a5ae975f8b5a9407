"""The settings as a table for people: every key, its value with secrets masked, who gave it."""

from dataclasses import dataclass

from pydantic import SecretStr

from cortex.settings.keys import SettingKey, setting_keys, shown
from cortex.settings.load import LoadedSettings
from cortex.settings.types import MASK, Unset, Url, masked_url


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of `cortex config show`."""

    key: str
    value: str
    origin: str
    default: str
    type: str
    variable: str
    description: str


def describe(loaded: LoadedSettings) -> list[SettingRow]:
    """List every key in the order of the models."""
    values = loaded.settings.model_dump(mode="json")
    return [
        SettingRow(
            key=str(key),
            value=_shown(values[key.section][key.name], key, str(loaded.home)),
            origin=str(loaded.origins[str(key)]),
            default=key.default,
            type=key.shape.words,
            variable=key.variable,
            description=key.description,
        )
        for key in setting_keys()
    ]


def _shown(value: object, key: SettingKey, home: str) -> str:
    unset = key.shape.mark(Unset)
    if value is None:
        return unset.meaning.replace("$CORTEX_HOME", home) if unset else ""
    if key.shape.core is SecretStr:
        return MASK if value else ""
    return masked_url(shown(value)) if key.shape.mark(Url) else shown(value)
