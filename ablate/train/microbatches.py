"""Gradient accumulation: a batch in microbatches, one after another, for less memory and the same update.

    L = Σ_p w_p L_p        ∂L/∂θ = Σ_p w_p ∂L_p/∂θ        w_p = sequences of part p / sequences of the batch

Sequences are equally long and none is padded, so weights by sequences are weights by tokens: loss and gradient equal
those of the whole batch up to the rounding of their sums, and with one part on one rank bit for bit. State that the
forward pass itself changes (the vectors of power iterations) is reset before each part to its value before the step:
all parts see the same model, whose state has moved once after the step. Dropout draws for one part after the other, so
its masks differ from those of a whole batch.

Losses that parts of the model add (`contributions.py`) are weighted alike, so one that is linear in the tokens is that
of the whole batch; any other is the mean of those of its parts.

Readings of probes from parameters and gradients are those of the whole batch. Readings from streams and attention, in
the batches of an evaluation, and from what a step does with streams (their gradients, their update) are made for each
part and averaged by sequences. That is exact for means over tokens or over sequences (`max_median_ratio`,
`attention_entropy`, as released too; `token_cosine`), and approximate for the rest, which are not linear in the tokens:

    activation_rms       a mean of roots, at most the root of the mean (Jensen)
    kurtosis, gram       ratios of moments over fewer tokens, so of mean squares and products with more variance
    token_correlation    over pairs within a part alone
    moment_update        its terms of the fourth moment, as kurtosis; those of the second are exact
    normality            the quantiles of fewer entries, of gradients too
    max_median_ratio     its median and max over tokens: means of those of the parts

Kurtosis of four parts of 6, 24 and 96 tokens of width 8 is off by up to 22%, 6% and 1% (measured in the tests): by
about one over the tokens of a part. So trials in parts record that in their versions, which keeps them from being
paired with others, and in the detail of their outcome.

Dimension key: B batch, T time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ablate.compiler.ahead import logits_ahead
from ablate.components.declare import OffersLosses
from ablate.probes.reading import Reading
from ablate.space.documents import Loss
from ablate.train.contributions import collected, offering
from ablate.train.data_parallel import ALONE, Ranks
from ablate.train.loss import added_by_recipe, cross_entropy, device_of, forward


@dataclass(frozen=True, slots=True)
class Microbatch:
    """Sequences that go through the model together; `weight` is their share of the batch."""

    tokens: Tensor
    targets: Tensor
    weight: float


@dataclass(frozen=True, slots=True)
class BatchShares:
    """How a batch is divided: among `ranks`, and each rank's share into `parts` that follow one another."""

    parts: int = 1
    ranks: Ranks = ALONE

    def of(self, tokens_BT: Tensor, targets_BT: Tensor, device: torch.device) -> list[Microbatch]:
        """Return this rank's parts, nearly equal in length, on the device; at most one per sequence, perhaps none."""
        tokens, targets = (self.ranks.share(windows).tensor_split(self.parts) for windows in (tokens_BT, targets_BT))
        return [
            Microbatch(part.to(device), wanted.to(device), len(part) / len(tokens_BT))
            for part, wanted in zip(tokens, targets, strict=True)
            if len(part)
        ]


def most_parts(batch: int, ranks: int = 1) -> int:
    """Return the largest number of parts of a batch: single sequences on the rank that has the most."""
    return -(-batch // ranks)


CROSS_ENTROPY = Loss()
"""The loss without additions."""


@dataclass
class Passes:
    """The forward and backward passes of a step, over its parts.

    `added` are the losses of the last step that the recipe's `loss` and parts of the model added to the cross-entropy,
    by place.
    """

    model: nn.Module
    dtype: str
    cut: BatchShares
    loss: Loss = CROSS_ENTROPY
    added: dict[str, float] = field(init=False, default_factory=dict)
    _moving: list[Tensor] = field(init=False)
    _offering: tuple[tuple[str, OffersLosses], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._moving = list(self.model.buffers())
        self._offering = offering(self.model)

    def backward(self, parts: Sequence[Microbatch]) -> float:
        """Return the cross-entropy of the whole batch; leave the gradient of it and of `added` in the parameters."""
        total = torch.zeros((), dtype=torch.float64, device=device_of(self.model))
        self.added, added = {}, dict[str, Tensor]()
        before = self._stand() if len(parts) > 1 else []
        for place, part in enumerate(parts):
            if place > 0:
                self._stand_again(before)
            loss, terms = self._forward(part)
            total += loss.detach().double() * part.weight
            for name, other in terms:
                loss = loss + other
                added[name] = added.get(name, 0) + other.detach().double() * part.weight
            (loss * part.weight).backward()  # type: ignore[no-untyped-call]
        ranks = self.cut.ranks
        ranks.add_gradients(p.grad for p in self.model.parameters() if p.grad is not None)
        if not added:
            return float(ranks.total(total).item())
        whole, *others = ranks.total(torch.stack([total, *added.values()])).tolist()
        self.added = dict(zip(added, others, strict=True))
        return float(whole)

    def _forward(self, part: Microbatch) -> tuple[Tensor, list[tuple[str, Tensor]]]:
        """Return the cross-entropy of a part, and what is added to it; no logits outlive this but in the graph."""
        logits = forward(self.model, part.tokens, self.dtype)
        loss = cross_entropy(logits, part.targets)
        added = added_by_recipe(logits, part.targets, loss, self.loss, logits_ahead(self.model))
        return loss, [*added, *collected(self._offering)]

    def _stand(self) -> list[tuple[Tensor, int, Tensor]]:
        """Record every buffer that may change: the buffer, its version counter, and a copy of its values."""
        return [(buffer, buffer._version, buffer.clone()) for buffer in self._moving]

    @torch.no_grad()
    def _stand_again(self, before: list[tuple[Tensor, int, Tensor]]) -> None:
        moved = [(buffer, held) for buffer, version, held in before if buffer._version != version]
        for buffer, held in moved:
            buffer.copy_(held)
        # Frozen weights are buffers too: they never change, so from now on they are not copied.
        self._moving = [buffer for buffer, _ in moved]


def averaged(read: Sequence[Sequence[Reading]], weights: Sequence[float], ranks: Ranks) -> list[Reading]:
    """Average the readings over the parts of all ranks; one list per part, in the same order in each."""
    if len(read) == ranks.size == 1 or not read[0]:
        return list(read[0])
    values = torch.stack([torch.stack([reading.value.double() for reading in part]) for part in read])
    weighted = values.new_tensor(weights)[:, None] * values
    means = ranks.total(weighted.sum(0))
    return [Reading(first.metric, first.address, mean) for first, mean in zip(read[0], means, strict=True)]
