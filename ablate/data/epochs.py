"""Epochs: how often training reads its text, and how much of what it reads it has read before.

    epochs = W T / N        repeated = 1 - N (1 - (1 - T/N)^W) / (W T)

    W windows of T tokens in all batches of a trial, N tokens of the training split

Windows stand anywhere in the split, drawn with replacement (`batches.py`), so a token is in one of them with a chance
of T/N, but at the very ends, and in at least one with 1 - (1 - T/N)^W. So text repeats before an epoch is over: at half
of one a fifth of what is read, at one more than a third.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ablate.space.documents import Data
from ablate.space.streamed import at_most


@dataclass(frozen=True, slots=True, order=True)
class Epochs:
    """A trial's `windows` of `seq_len` tokens, drawn from a training split that holds `held` tokens."""

    windows: int
    seq_len: int
    held: int

    @property
    def tokens(self) -> int:
        """Those that training reads, each as often as it does."""
        return self.windows * self.seq_len

    @property
    def epochs(self) -> float:
        """How often a token is read in the mean."""
        return self.tokens / self.held

    @property
    def repeated(self) -> float:
        """The expected share of what is read that was read before."""
        chance = min(self.seq_len / self.held, 1.0)
        seen = 1.0 if chance == 1 else -math.expm1(self.windows * math.log1p(-chance))
        return max(0.0, 1 - seen * self.held / self.tokens)


def describe_epochs(trials: Iterable[Epochs], data: Data, asked: int) -> tuple[str, ...]:
    """Lines on what trials read, for a person; `asked` are the bytes of text that its steps ask for."""
    kinds = sorted(set(trials))
    tokens, epochs = _range([f"{one.tokens:,}" for one in kinds]), _range([f"{one.epochs:.3g}" for one in kinds])
    repeated = _range([f"{100 * one.repeated:.2g}" for one in kinds])
    lines = [
        f"training reads {tokens} tokens a trial, {epochs} epochs of the train split; windows stand anywhere, drawn "
        f"with replacement: {repeated} % of what is read was read before"
    ]
    most = at_most(data)
    if capped := most is not None and most < asked:
        lines.append(f"the steps ask for {asked:,} bytes of text, and data.corpus.at_most lets {most:,} be read")
    if kinds[-1].epochs >= 1:
        more = "raise data.corpus.at_most" if capped else "name more of it"
        lines.append(f"the text repeats: {more}, or train on fewer tokens (recipe.steps, recipe.batch)")
    return tuple(lines)


def _range(numbers: list[str]) -> str:
    return numbers[0] if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
