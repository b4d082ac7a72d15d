"""Epochs: how often training reads its text, and how much of what it reads it has read before.

    epochs = W T / N        repeated = 1 - N (1 - (1 - T/N)^W) / (W T)

    W windows of T tokens in all batches of a trial, N tokens of the training split

Windows start anywhere in the split, drawn with replacement (`batches.py`), so except at the very ends a token is in a
given window with probability T/N, and in at least one with 1 - (1 - T/N)^W. So text repeats before the first epoch is
over: after half an epoch a fifth of the tokens read are repeats, after one more than a third. Pairs, and examples that
are no text, are drawn with replacement as well: N counts those, and T = 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ablate.space.documents import Data
from ablate.space.streamed import at_most


@dataclass(frozen=True, slots=True, order=True)
class Epochs:
    """A trial's `windows` of `seq_len` tokens, drawn from a training split that holds `held` tokens.

    Of a split of pairs, or of examples that are no text, those are the tokens, as the `noun` says, and a window is one.
    """

    windows: int
    seq_len: int
    held: int
    noun: str = "tokens"

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
    nouns = dict.fromkeys(each.noun for each in kinds)
    lines = [_line([each for each in kinds if each.noun == noun]) for noun in nouns]
    most, text = at_most(data), "examples" not in nouns
    if capped := most is not None and most < needed:
        of = "text" if text else "examples"
        lines.append(f"the steps need {needed:,} bytes of {of}, but data.corpus.at_most allows only {most:,}")
    if any(each.noun == "tokens" and each.epochs >= 1 for each in kinds):
        more = "raise data.corpus.at_most" if capped else "add more of it"
        lines.append(f"the text repeats: {more}, or train on fewer tokens (recipe.steps, recipe.batch)")
    return tuple(lines)


def _line(kinds: Sequence[Epochs]) -> str:
    """Describe what trials read of the same noun, in ascending order."""
    noun = kinds[0].noun
    drawn = "; windows start anywhere, drawn with replacement" if noun == "tokens" else ", drawn with replacement"
    tokens, epochs = _range([f"{each.tokens:,}" for each in kinds]), _range([f"{each.epochs:.3g}" for each in kinds])
    repeated = _range([f"{100 * each.repeated:.2g}" for each in kinds])
    return (
        f"training reads {tokens} {noun} per trial, {epochs} epochs of the train split{drawn}: {repeated} % of the "
        f"{noun} read are repeats"
    )


def _range(numbers: list[str]) -> str:
    return numbers[0] if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
