"""Masked words: some tokens of a sequence are hidden, and predicted from both sides.

    L = - mean_n log softmax(logits_n)[token_n]        over the tokens n that were chosen

Of the n tokens of a sequence that stand for text, max(1, ⌊n share + ½⌋) are chosen, each set as likely as any other. At
short contexts rounding makes that another share than was asked: 3 of 17 tokens are 17.6 % for 15 %, and the plan says
so. A chosen token is replaced by `mask` with probability `masked`, by another drawn at random with probability `random`
(any token but the separator and those that the objective needs), and else stays what it is; all are predicted.

With `next_sentence` a sequence is [start] A [separator] B [separator], filled up with padding. A begins a window of the
text, and B continues it, or, as often, it begins the window half a batch away; a tenth of the sequences are short. The
model predicts which from its first token, and its cross-entropy is added to the loss:

    L + L_pair,        L_pair = - mean_b log softmax(classes_b)[label_b]        label 0: B continues A

    Devlin et al. 2018, arXiv:1810.04805, Sec. 3.1, with a share of 15 %; Geiping & Goldstein 2022, arXiv:2212.14034,
    with 25 % and without pairs; Wettig et al. 2022, arXiv:2202.08005

Dimension key: B batch, T time, N targets, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field, model_validator

from ablate.space.model import Model
from ablate.space.recipe import Recipe, Special
from ablate.train.objectives.declare import Settings, Share, implements, objective

SHORTEST: Final = 5  # the tokens of the shortest sequence that has a pair


@objective(
    "masked_words",
    models=("encoder",),
    measures=("eval_accuracy", "perplexity"),
    source="Devlin et al. 2018, arXiv:1810.04805",
    version=1,
)
class MaskedWords(Settings):
    """The `share` of tokens that are predicted, what replaces them, and whether pairs are told apart."""

    share: Annotated[Share, Field(gt=0)] = 0.25
    masked: Share = 0.8
    random: Share = 0.1
    next_sentence: bool = False

    @model_validator(mode="after")
    def _at_most_all(self) -> MaskedWords:
        if self.masked + self.random > 1 + 1e-9:
            raise ValueError(f"masked and random are {self.masked:g} and {self.random:g}: together more than 1")
        return self

    @property
    def special(self) -> tuple[Special, ...]:
        """`mask`; for pairs also the start and the padding of a sequence."""
        return ("mask", "start", "padding") if self.next_sentence else ("mask",)

    @property
    def fewest(self) -> int:
        """Two for pairs: the second part of one may come from another sequence."""
        return 2 if self.next_sentence else 1

    @property
    def classes(self) -> int:
        """Two for pairs: the second part continues the first, or not."""
        return 2 if self.next_sentence else 0

    def in_force(self, model: Model) -> str:
        """The share of a whole sequence that is chosen, where rounding makes it another than was asked."""
        words = model.context - (3 if self.next_sentence else 0)
        chosen = max(1, math.floor(words * self.share + 0.5))
        asked, given = (f"{100 * share:.3g} %" for share in (self.share, chosen / words))
        return "" if asked == given else f"{chosen} of {words} tokens of a sequence, {given} for the {asked} asked"

    def unfit(self, model: Model, recipe: Recipe) -> Iterator[tuple[str, str, str]]:
        """Sequences too short for a pair, and batches in which no window is another's."""
        if self.next_sentence and model.context < SHORTEST:
            reason = f"a pair has three tokens of its own, and {SHORTEST - 3} of text"
            yield "model.context", reason, f"set it to {SHORTEST} at least"


from collections.abc import Mapping, Sequence

import torch  # first: planning reads no further
from torch import Tensor

# isort: split
import numpy as np

from ablate.data.batch import NO_TARGET, Batch, Tensors, first
from ablate.data.uniform import Uniform
from ablate.train.loss import cross_entropy
from ablate.train.objectives.cross_entropy import CrossEntropy
from ablate.train.objectives.declare import Given, Term

PAIRS = "next_sentence"
SHORT = 0.1  # the share of pairs that are shorter than the context, as in BERT


@implements(MaskedWords)
class Objective(CrossEntropy):
    """[B, T] tokens, some hidden, and the tokens [B, T] that were chosen; with pairs [B, T] segments and [B] labels."""

    def __init__(self, settings: MaskedWords, given: Given):
        super().__init__(settings, given)
        sizes = given.sizes
        assert sizes.mask is not None
        self.mask = sizes.mask
        self.no_text = [id for id in (sizes.mask, sizes.start, sizes.padding, sizes.separator) if id is not None]
        self.text = np.setdiff1d(np.arange(sizes.vocab_size), self.no_text)

    def batch(self, drawn: Batch, uniform: Uniform) -> Batch:
        tokens = first(drawn.inputs).numpy()
        if not self.settings.next_sentence:
            return Batch(*map(torch.from_numpy, self._hidden(tokens, uniform)))
        tokens, segments, labels = self._paired(tokens, uniform)
        hidden, targets = self._hidden(tokens, uniform)
        inputs, wanted = (hidden, segments), (targets, labels)
        return Batch(tuple(map(torch.from_numpy, inputs)), tuple(map(torch.from_numpy, wanted)))

    def targets(self, batch: Batch) -> Mapping[str, int]:
        pairs = {PAIRS: batch.examples} if self.settings.next_sentence else {}
        return {**super().targets(batch), **pairs}

    def terms(self, output: Tensors, batch: Batch, ahead: Sequence[Tensor] = ()) -> Iterator[Term]:
        yield from super().terms(output, batch, ahead)
        if self.settings.next_sentence:
            yield Term(f"head.{PAIRS}", cross_entropy(output[1], batch.targets[1]), of=PAIRS)

    def _hidden(self, tokens: np.ndarray, uniform: Uniform) -> tuple[np.ndarray, np.ndarray]:
        """The tokens with some of them replaced, and these, NO_TARGET elsewhere."""
        text = ~np.isin(tokens, self.no_text)
        order = np.argsort(np.argsort(np.where(text, uniform(*tokens.shape), 2.0), axis=1), axis=1)
        real = text.sum(axis=1)
        wanted = np.minimum(np.maximum(np.floor(real * self.settings.share + 0.5), 1), real)
        chosen = order < wanted[:, None]
        drawn, other = uniform(*tokens.shape), uniform(*tokens.shape)
        random = self.text[np.minimum((other * len(self.text)).astype(np.int64), len(self.text) - 1)]
        masked, replaced = self.settings.masked, self.settings.masked + self.settings.random
        hidden = np.where(chosen & (drawn < masked), self.mask, tokens)
        hidden = np.where(chosen & (drawn >= masked) & (drawn < replaced), random, hidden)
        return hidden.astype(np.int64), np.where(chosen, tokens, NO_TARGET).astype(np.int64)

    def _paired(self, windows: np.ndarray, uniform: Uniform) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Windows made into pairs, the segments of their tokens, and whether the second part is another's."""
        n_pairs, length = windows.shape
        numbers = uniform(n_pairs, 4)
        room = np.where(numbers[:, 0] < SHORT, 2 + np.floor(numbers[:, 1] * (length - 4)), length - 3).astype(np.int64)
        firsts = 1 + np.floor(numbers[:, 2] * (room - 1)).astype(np.int64)
        labels = (numbers[:, 3] >= 0.5).astype(np.int64)
        sizes = self.sizes
        tokens, segments = np.full_like(windows, sizes.padding), np.zeros_like(windows)
        for n, (both, split, label) in enumerate(zip(room, firsts, labels, strict=True)):
            window, other = windows[n], windows[(n + n_pairs // 2) % n_pairs]
            second = other[: both - split] if label else window[split:both]
            pair = [[sizes.start], window[:split], [sizes.separator], second, [sizes.separator]]
            tokens[n, : both + 3] = np.concatenate(pair)
            segments[n, split + 2 : both + 3] = 1
        return tokens, segments, labels
