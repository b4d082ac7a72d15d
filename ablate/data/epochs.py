"""Epochs: how often training reads its text, and how much of what it reads it has read before.

    epochs = W T / N        repeated = 1 - N (1 - (1 - T/N)^W) / (W T)

    W windows of T tokens in all batches of a trial, N tokens of the training split

Windows start anywhere in the split, drawn with replacement (`batches.py`), so except at the very ends a token is in a
given window with probability T/N, and in at least one with 1 - (1 - T/N)^W. So text repeats before the first epoch is
over: after half an epoch a fifth of the tokens read are repeats, after one more than a third.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ablate.space.documents import Data
from ablate.space.streamed import at_most


@dataclass(frozen=True, slots=True, order=True)
class Epochs:
    """A trial's `windows` of `seq_len` tokens, drawn from a training split that holds `held` tokens.

    Of a corpus that is no `text`, tokens are examples, and a window is one.
    """

    windows: int
    seq_len: int
    held: int
    text: bool = True

    @property
    def tokens(self) -> int:
        """The tokens that training reads, counted with repetition."""
        return self.windows * self.seq_len

    @property
    def epochs(self) -> float:
        """How often a token is read on average."""
        return self.tokens / self.held

    @property
    def repeated(self) -> float:
        """The expected share of the tokens read that were read before."""
        chance = min(self.seq_len / self.held, 1.0)
        seen = 1.0 if chance == 1 else -math.expm1(self.windows * math.log1p(-chance))
        return max(0.0, 1 - seen * self.held / self.tokens)


def describe_epochs(trials: Iterable[Epochs], data: Data, needed: int) -> tuple[str, ...]:
    """Describe in some lines what trials read; `needed` are the bytes of text that their steps need."""
    kinds = sorted(set(trials))
    tokens, epochs = _range([f"{each.tokens:,}" for each in kinds]), _range([f"{each.epochs:.3g}" for each in kinds])
    repeated = _range([f"{100 * each.repeated:.2g}" for each in kinds])
    text = all(each.text for each in kinds)
    lines = [
        f"training reads {tokens} tokens per trial, {epochs} epochs of the train split; windows start anywhere, drawn "
        f"with replacement: {repeated} % of the tokens read are repeats"
    ]
    if not text:
        lines = [
            f"training reads {tokens} examples per trial, {epochs} epochs of the train split, drawn with replacement: "
            f"{repeated} % of the examples read are repeats"
        ]
    most = at_most(data)
    if capped := most is not None and most < needed:
        of = "text" if text else "examples"
        lines.append(f"the steps need {needed:,} bytes of {of}, but data.corpus.at_most allows only {most:,}")
    if text and kinds[-1].epochs >= 1:
        more = "raise data.corpus.at_most" if capped else "add more of it"
        lines.append(f"the text repeats: {more}, or train on fewer tokens (recipe.steps, recipe.batch)")
    return tuple(lines)


def _range(numbers: list[str]) -> str:
    return numbers[0] if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
