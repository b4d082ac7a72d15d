"""Span filling: spans of a text are hidden, and written out one after another by a decoder.

    text    a b c d e f g h        source  a b ⟨1⟩ e f ⟨2⟩ /        target  ⟨1⟩ c d ⟨2⟩ g h /

    L = - mean_n log softmax(logits_n)[target_n]        over the tokens n of all targets

Of L tokens N = max(1, ⌊L share + ½⌋) are hidden, in max(1, ⌊N / span + ½⌋) spans: the tokens hidden and the others are
each cut into as many parts as there are spans, every way as likely, and the parts alternate, the first one shown. ⟨k⟩
are tokens of their own, and / is the separator. L is the most for which a source fits into `model.source` and its
target into `model.context`.

    Raffel et al. 2020, arXiv:1910.10683, Sec. 3.1.4, with a share of 15 %, spans of 3 tokens and 100 such tokens

Dimension key: B batch, L length of a window, S length of the source, T length of the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from ablate.block.sizes import Sizes
from ablate.space.model import Model
from ablate.space.recipe import Recipe, Special
from ablate.train.objectives.declare import Count, Settings, Share, implements, objective


@objective(
    "span_filling",
    models=("encoder_decoder",),
    measures=("eval_accuracy", "perplexity"),
    source="Raffel et al. 2020, arXiv:1910.10683",
    version=1,
)
class SpanFilling(Settings):
    """The `share` of tokens that is hidden, the mean length of a `span`, and the most `spans`, each with a token."""

    share: Annotated[Share, Field(gt=0, lt=1)] = 0.15
    span: Annotated[float, Field(ge=1)] = 3.0
    spans: Count = 100

    @property
    def special(self) -> tuple[Special, ...]:
        """The start of a target, and its padding."""
        return ("start", "padding")

    @property
    def sentinels(self) -> int:
        """A token for each span that there may be."""
        return self.spans

    def hidden(self, length: int) -> tuple[int, int]:
        """The number of hidden tokens among so many, and that of their spans."""
        tokens = min(max(int(length * self.share + 0.5), 1), length - 1)
        return tokens, min(max(int(tokens / self.span + 0.5), 1), tokens, length - tokens)

    def lengths(self, length: int) -> tuple[int, int]:
        """Those of the source and of the target, of so many tokens of text."""
        tokens, spans = self.hidden(length)
        return length - tokens + spans + 1, tokens + spans + 1

    def window(self, sizes: Sizes) -> int:
        """The most tokens of text whose source and target have room; 0 if none have."""
        return self._longest(sizes.source_len or 0, sizes.seq_len)

    def unfit(self, model: Model, recipe: Recipe) -> Iterator[tuple[str, str, str]]:
        """Lengths without room for a span, and more spans than there are tokens for."""
        length = self._longest(model.source or 0, model.context)
        if model.source is not None and not length:
            yield "model.context", "a span and its neighbours", "set model.context and model.source to 3 at least"
        elif length and (spans := self.hidden(length)[1]) > self.spans:
            yield "model.source", f"a token for each of {spans} spans", f"set spans of span_filling to {spans}"

    def _longest(self, source: int, target: int) -> int:
        def fits(length: int) -> bool:
            of_source, of_target = self.lengths(length)
            return of_source <= source and of_target <= target

        return next((length for length in range(source + target, 1, -1) if fits(length)), 0)


import torch  # first: planning reads no further

# isort: split
import numpy as np
import numpy.typing as npt

from ablate.data.batch import Batch, first
from ablate.data.pairs import teacher_forced
from ablate.data.uniform import Uniform
from ablate.train.objectives.cross_entropy import CrossEntropy

Tokens = npt.NDArray[np.int64]


@implements(SpanFilling)
class Objective(CrossEntropy):
    """A source [B, S] with its spans hidden and the target [B, T] one token earlier, and the target."""

    def batch(self, drawn: Batch, uniform: Uniform) -> Batch:
        windows, settings, sizes = first(drawn.inputs).numpy(), self.settings, self.sizes
        n_windows, length = windows.shape
        tokens, spans = settings.hidden(length)
        n_source, n_target = settings.lengths(length)
        source = np.full((n_windows, sizes.source_len or 0), sizes.padding, dtype=np.int64)
        target = np.full((n_windows, sizes.seq_len), sizes.padding, dtype=np.int64)
        for n, (window, numbers) in enumerate(zip(windows, uniform(n_windows, length), strict=True)):
            hidden, shown = _cut(tokens, spans, numbers[:tokens]), _cut(length - tokens, spans, numbers[tokens:])
            source[n, :n_source], target[n, :n_target] = self._parted(window, shown, hidden)
        lengths = torch.full((n_windows,), n_target)
        return teacher_forced(torch.from_numpy(source), torch.from_numpy(target), lengths, sizes)

    def _parted(self, window: Tokens, shown: Tokens, hidden: Tokens) -> tuple[Tokens, Tokens]:
        """The source and the target of a text whose parts, in turn shown and hidden, have these lengths."""
        assert self.sizes.sentinels is not None
        ends = np.stack([shown, hidden], axis=1).ravel().cumsum()
        parts = np.split(window, ends[:-1])
        source, target = list[Tokens](), list[Tokens]()
        for span, (before, inside) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
            sentinel = np.array([self.sizes.sentinels + span])
            source += [before, sentinel]
            target += [sentinel, inside]
        end = np.array([self.sizes.separator])
        return np.concatenate([*source, end]), np.concatenate([*target, end])


def _cut(total: int, parts: int, numbers: npt.NDArray[np.float64]) -> Tokens:
    """The lengths of parts of `total`, each at least 1, every way as likely; `numbers` are as many as tokens."""
    ends = np.sort(np.argsort(numbers[: total - 1])[: parts - 1]) + 1
    return np.diff(ends, prepend=0, append=total).astype(np.int64)
