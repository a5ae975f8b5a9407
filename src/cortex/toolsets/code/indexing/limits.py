"""How large chunks may be."""

from dataclasses import dataclass

from cortex.toolsets.code.models import ChunkType

# What a tokenizer makes of text and code, roughly: the measure of the settings.
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """Sizes in tokens, and which types of code chunks are wanted."""

    code_tokens: int
    doc_tokens: int
    overlap_tokens: int
    chunk_types: frozenset[ChunkType]

    @property
    def code_chars(self) -> int:
        """The most characters of a code chunk."""
        return self.code_tokens * CHARS_PER_TOKEN
