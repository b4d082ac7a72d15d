"""Gradient accumulation: a batch in microbatches, one after another, for less memory and the same update.

    L = Σ_p w_p L_p        ∂L/∂θ = Σ_p w_p ∂L_p/∂θ        w_p = targets of part p / targets of the batch

Each term of an objective is a mean over targets, and is weighted by those that it has in a part: masked words by words,
whether two sequences are neighbours by sequences. So loss and gradient equal those of the whole batch up to the
rounding of their sums, and with one part on one rank bit for bit. State that the forward pass itself changes (the
vectors of power iterations) is reset before each part: all parts see the same model, whose state has moved once after
the step. Dropout draws for one part after the other, so its masks differ from those of a whole batch.

Losses that parts of the model add (`loss.py`) are weighted by sequences: one that is linear in the tokens is that of
the whole batch where sequences are equally long; any other is the mean of those of its parts.

Readings of probes from parameters and gradients are those of the whole batch. Those from streams and attention are made
for each part and averaged by sequences. That is exact for means over tokens or over sequences (`max_median_ratio`,
`attention_entropy`, as released too; `token_cosine`), and approximate for the rest, which are not linear in the tokens:

    activation_rms       a mean of roots, at most the root of the mean (Jensen)
    stream_gradient      the same, of the gradient of the whole batch's loss at the tokens of a part
    kurtosis, gram       ratios of moments over fewer tokens, so of mean squares and products with more variance
    token_correlation    over pairs within a part alone
    one_step_sensitivity a ratio of mean squares over fewer tokens
    moment_update        its terms of the fourth moment, as kurtosis; those of the second are exact
    normality            the quantiles of fewer entries, of gradients too
    max_median_ratio     its median and max over tokens: means of those of the parts

Kurtosis of four parts of 6, 24 and 96 tokens of width 8 is off by up to 22%, 6% and 1% (measured in the tests). So
trials in parts record that in their versions, which keeps them from being paired with others, and in their outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from ablate.compiler.values import logits_ahead
from ablate.components.declare import OffersLosses
from ablate.data.batch import Batch, Tensors
from ablate.probes.reading import Reading
from ablate.train.data_parallel import ALONE, Ranks
from ablate.train.loss import collected, device_of, forward, offering, unscale
from ablate.train.objectives.declare import Objective


@dataclass(frozen=True, slots=True)
class Microbatch:
    """Examples that go through the model together.

    `weight` is their share of the batch, and `shares` are those of their targets, for each term of the objective.
    """

    batch: Batch
    weight: float
    shares: Mapping[str, float]

    @property
    def inputs(self) -> Tensors:
        return self.batch.inputs


@dataclass(frozen=True, slots=True)
class BatchShares:
    """The division of a batch: among `ranks`, and each rank's share into `parts` that follow one another."""

    parts: int = 1
    ranks: Ranks = ALONE

    def of(self, batch: Batch, device: torch.device, objective: Objective) -> list[Microbatch]:
        """This rank's parts, nearly equal in length, on the device; at most one per example, perhaps none."""
        whole = objective.targets(batch)
        bounds = torch.arange(batch.examples)
        places = [part for part in self.ranks.share(bounds).tensor_split(self.parts) if len(part)]
        parts = [batch.each(lambda tensor, at=at: tensor[at[0] : at[-1] + 1]) for at in places]  # type: ignore[misc]
        return [
            Microbatch(
                part.each(lambda tensor: tensor.to(device)),
                part.examples / batch.examples,
                {of: count / max(whole[of], 1) for of, count in objective.targets(part).items()},
            )
            for part in parts
        ]


def most_parts(batch: int, ranks: int = 1) -> int:
    """The largest number of parts of a batch: single sequences on the rank that has the most."""
    return -(-batch // ranks)


@dataclass
class Passes:
    """The forward and backward passes of a step, over its parts.

    `added` are the losses of the last step beside the main one, by place. `scale` is the factor of the sum of all for
    the backward pass; the gradients left are divided by it.
    """

    model: nn.Module
    dtype: str
    cut: BatchShares
    objective: Objective
    scale: float = 1.0
    added: dict[str, float] = field(init=False, default_factory=dict)
    _moving: list[Tensor] = field(init=False)
    _offering: tuple[tuple[str, OffersLosses], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._moving = list(self.model.buffers())
        self._offering = offering(self.model)

    def backward(self, parts: Sequence[Microbatch]) -> float:
        """Return the loss of the whole batch, without `added`; leave the gradient of both in the parameters."""
        total = torch.zeros((), dtype=torch.float64, device=device_of(self.model))
        self.added, added = {}, dict[str, Tensor]()
        before = self._stand() if len(parts) > 1 else []
        for place, part in enumerate(parts):
            if place > 0:
                self._stand_again(before)
            alike: dict[float, Tensor] = {}  # added up before they are weighted, as the terms of one batch are
            for name, mean, weight in self._forward(part):
                alike[weight] = alike[weight] + mean if weight in alike else mean
                if name:
                    added[name] = added.get(name, 0) + mean.detach().double() * weight
                else:
                    total += mean.detach().double() * weight
            whole = reduce(add, (loss * weight for weight, loss in alike.items()))
            (whole if self.scale == 1 else whole * self.scale).backward()  # type: ignore[no-untyped-call]
        ranks = self.cut.ranks
        ranks.add_gradients(p.grad for p in self.model.parameters() if p.grad is not None)
        unscale((p.grad for p in self.model.parameters() if p.grad is not None), self.scale)
        if not added:
            return float(ranks.total(total).item())
        main, *others = ranks.total(torch.stack([total, *added.values()])).tolist()
        self.added = dict(zip(added, others, strict=True))
        return float(main)

    def _forward(self, part: Microbatch) -> list[tuple[str, Tensor, float]]:
        """The terms of a part by place, with their weights; no logits outlive this but in the graph."""
        output = forward(self.model, part.inputs, self.dtype)
        terms = self.objective.terms(output, part.batch, logits_ahead(self.model))
        own = [(term.place, term.mean, part.shares[term.of]) for term in terms]
        return [*own, *((place, loss, part.weight) for place, loss in collected(self._offering))]

    def _stand(self) -> list[tuple[Tensor, int, Tensor]]:
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
