"""Pairs in a stream of tokens, found by their separators, and how many are longer than what a model reads.

source SEP target SEP source SEP target SEP …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Final

import numpy as np
import numpy.typing as npt

from ablate.data.corpus import Corpus
from ablate.data.sources import CorpusError, CorpusFault, Split
from ablate.data.tokenizer import Tokens
from ablate.errors import RefusedError

MOST: Final = 0.95  # the share of texts that the second of two lengths in a note covers


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a stream: `pairs[i]` are the tokens of a source and of its target, each ended by the separator."""

    stream: Tokens
    separator: int

    def __post_init__(self) -> None:
        if len(self.stream) == 0 or self.stream[-1] != self.separator or len(self._ends) % 2:
            raise RefusedError(
                f"data: a split of {len(self.stream):,} tokens is not made of pairs, each a source and a target that "
                "end with the separator. Name a corpus of pairs, such as corpus: code_docstrings."
            )

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.stream == self.separator)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The tokens of each source and target, [pairs, 2], separators included."""
        return np.diff(self._ends, prepend=-1).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._ends) // 2

    def __getitem__(self, pair: int) -> tuple[Tokens, Tokens]:
        if not 0 <= pair < len(self):
            raise IndexError(pair)
        middle, end = self._ends[2 * pair : 2 * pair + 2] + 1
        start = self._ends[2 * pair - 1] + 1 if pair else 0
        return self.stream[start:middle], self.stream[middle:end]

    def cut_by(self, source_length: int, target_length: int) -> int:
        """The number of pairs of which one side, with its separator, is longer than its length."""
        return int((self.lengths > (source_length, target_length)).any(axis=1).sum())


def require_pairs(corpus: Corpus) -> None:
    """Raise CorpusError unless the texts of each split are pairs: two after each other, in one folder."""
    for texts in corpus.texts.values():
        alone = next((a for a, b in zip_longest(texts[::2], texts[1::2]) if b is None or a.folder != b.folder), None)
        if alone is not None:
            message = f"{corpus.title}: {alone.name} has no text beside it that makes it a pair"
            notes = ("a corpus of pairs yields a source and then its target, in one folder",)
            raise CorpusError([CorpusFault(message, notes=notes)])


def require_separators(corpus: Corpus, streams: Mapping[Split, Tokens], separator: int) -> None:
    """Raise CorpusError where a text holds the separator, so that pairs could not be told apart."""
    for split, texts in corpus.texts.items():
        if np.count_nonzero(streams[split] == separator) != len(texts):
            message = (
                f"{corpus.title}: a text of the {split} split holds token {separator}, which ends each text of a pair"
            )
            notes = ("let data.tokenizer be {bpe: 32000}, whose separator is in no text, or leave such texts out",)
            raise CorpusError([CorpusFault(message, ("data", "tokenizer"), notes=notes)])


def length_note(pairs: Pairs) -> str:
    half, most = np.quantile(pairs.lengths, (0.5, MOST), axis=0, method="inverted_cdf").astype(int)
    sides = (f"{side} at most {half[n]:,} and {most[n]:,}" for n, side in enumerate(("sources have", "targets")))
    return f"pairs of train: half and {MOST:.0%} of the {', of the '.join(sides)} tokens, with their separators"


def cut_notes(pairs: Pairs, source_length: int, target_length: int) -> tuple[str, ...]:
    cut = pairs.cut_by(source_length, target_length)
    if not cut:
        return ()
    return (
        f"{cut:,} of {len(pairs):,} pairs of train are cut off: their source is longer than {source_length:,} "
        f"tokens or their target longer than {target_length:,}, with their separators",
    )
