"""SpecialTokens: the ids of a tokenizer that stand for no text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpecialTokens:
    """The ids that stand for no text; None: the tokenizer has none.

    `separator` ends a document, `padding` fills up a sequence, `mask` replaces a token to be predicted, and `start`
    comes before a sequence (or is what a whole sequence is classified by).
    """

    separator: int
    padding: int | None = None
    mask: int | None = None
    start: int | None = None
