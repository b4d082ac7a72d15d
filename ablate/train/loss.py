"""Loss: the cross-entropy in nats, the terms that a recipe and parts of a model add to it, and its precision.

    L = - mean_n log softmax(logits_n)[target_n]        over the targets n of an objective (`objectives/`)

    minimised: L + label_smoothing * (U - L) + z * mean_n Z_n² + Σ_k ahead_k A_k        and what parts add

    U = - mean_nv log softmax(logits_n)[v]          Z_n = log Σ_v exp(logits_nv)
    A_k = - mean_bt log softmax(logits_k,bt)[target_b,t+k-1]      k = 2, 3, …: the k-th token ahead, where there is one

so that with label smoothing ε the target has a probability of 1 - ε + ε/V, and every other token ε/V. All terms are
linear in the targets, and recorded apart; `train_loss` and `eval_loss` are L. A_k are of the next token alone: logits_k
are those of a block for the k-th token ahead (`model.ahead`), as in Gloeckle et al. 2024, where the model has one; else
logits, as in modded-nanogpt. U and Z are of logits alone.

    Szegedy et al. 2016, arXiv:1512.00567, Sec. 7; z: Chowdhery et al. 2022, arXiv:2204.02311, Sec. 5, with z = 1e-4;
    ahead: Gloeckle et al. 2024, arXiv:2404.19737, Eq. 2; Jordan et al. 2024, modded-nanogpt, with weights that fall
    to 0 during training

Dimension key: B batch, T time, V vocabulary, N targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ablate.components.declare import ActsAfterStep, OffersLosses
from ablate.data.batch import Tensors
from ablate.probes.reading import Reading
from ablate.space.recipe import Loss, LossScale, Recipe
from ablate.train.data_parallel import Ranks
from ablate.train.definitions import ADDED_LOSS, AFTER_STEP, LOSS_SCALE, SKIPPED

HALF: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""The types of half precision, of products: parameters, their gradients and sums are in float32."""


def forward(model: nn.Module, inputs: Tensors, dtype: str) -> Any:
    """`bfloat16` and `float16` are autocast over float32 parameters, other types are those of the parameters."""
    given = (inputs,) if isinstance(inputs, Tensor) else inputs
    with _precision(given[0].device, dtype):
        return model(*given)


def cross_entropy(
    logits_NV: Float[Tensor, "*N V"], targets_N: Int[Tensor, "*N"], reduction: str = "mean"
) -> Float[Tensor, "..."]:
    """The cross-entropy in nats, in float32 at least; the mean of no targets is 0."""
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32)).flatten(0, -2)
    if not targets_N.numel():
        return logits_NV.sum()
    return functional.cross_entropy(logits_NV, targets_N.flatten(), reduction=reduction)


def added_by_recipe(logits_NV: Float[Tensor, "*N V"], loss: Tensor, terms: Loss) -> Iterator[tuple[str, Tensor]]:
    """The weighted terms that a recipe adds to the cross-entropy `loss` of these targets, by place."""
    if not (terms.label_smoothing or terms.z):
        return
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    normaliser_N = logits_NV.logsumexp(-1)
    if terms.label_smoothing:
        uniform = _mean(normaliser_N - logits_NV.mean(-1))
        yield "head.label_smoothing", terms.label_smoothing * (uniform - loss)
    if terms.z:
        yield "head.z", terms.z * _mean(normaliser_N.square())


def further_ahead(
    logits_BTV: Float[Tensor, "B T V"],
    targets_BT: Int[Tensor, "B T"],
    terms: Loss,
    logits_ahead: Sequence[Float[Tensor, "B T V"]] = (),
) -> Iterator[tuple[str, Tensor]]:
    """The weighted cross-entropies of tokens further ahead than the next, by place.

    `logits_ahead` are those of the second token ahead, the third, and so on, where they have logits of their own.
    """
    for further, weight in enumerate(terms.ahead, start=1):
        if weight:
            of_token = logits_ahead[further - 1] if further <= len(logits_ahead) else logits_BTV
            of_later = cross_entropy(of_token[:, :-further], targets_BT[:, further:])
            yield f"head.ahead.{further + 1}", weight * of_later


def _mean(numbers: Tensor) -> Tensor:
    return numbers.mean() if numbers.numel() else numbers.sum()


def parameter_type(dtype: str) -> torch.dtype:
    """Half precision keeps parameters in float32."""
    return torch.float64 if dtype == "float64" else torch.float32


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _precision(device: torch.device, dtype: str) -> AbstractContextManager[object]:
    return torch.autocast(device.type, HALF[dtype]) if dtype in HALF else nullcontext()


# The loss of examples that are mixtures of two classes, as MixUp makes them.
#
#     loss_b = λ_b loss(class_b) + (1 - λ_b) loss(other class_b)
#
# For a cross-entropy that is the loss of the target that gives class_b the probability λ_b (Zhang et al. 2018,
# arXiv:1710.09412, Sec. 2). Squares differ from those to that target by λ_b (1 - λ_b) |e_class - e_other|², which has
# no gradient, where all outputs weigh the same.
#
# Dimension key: B batch.


def each_mixed(targets: Tensors, loss: Callable[[Tensor], Tensor]) -> Float[Tensor, "B"]:
    """The loss of each example by that of classes; `targets` are classes, or (classes, others, shares)."""
    if isinstance(targets, Tensor):
        return loss(targets)
    classes_B, others_B, share_B = targets
    of_class_B, of_other_B = loss(classes_B), loss(others_B)
    share_B = share_B.to(of_class_B.dtype)
    return share_B * of_class_B + (1 - share_B) * of_other_B


# Contributions of parts of a model to its training: losses beside the cross-entropy, and actions after an update.
#
#     L = cross-entropy + Σ added        the sum is minimised; `train_loss` and `eval_loss` are the cross-entropy
#
# Each added loss has rows of its own, and so has each number that a part gives after a step, at the address of the
# part and the name: `layers.3.mlp.balance`. The parts are found once, before the first step.


def offering(model: nn.Module) -> tuple[tuple[str, OffersLosses], ...]:
    return tuple((address, part) for address, part in model.named_modules() if isinstance(part, OffersLosses))


def acting(model: nn.Module) -> tuple[tuple[str, ActsAfterStep], ...]:
    return tuple((address, part) for address, part in model.named_modules() if isinstance(part, ActsAfterStep))


def collected(parts: Sequence[tuple[str, OffersLosses]]) -> Iterator[tuple[str, Tensor]]:
    """The losses of the forward pass that just ran, by place; ValueError for one that is not a single number."""
    for address, part in parts:
        for name, loss in part.losses().items():
            if not isinstance(loss, Tensor) or loss.ndim:
                given = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
                raise ValueError(f"the loss {name!r} of {address or 'the model'} is {given}: give a tensor, one number")
            yield placed(address, name), loss


def recorded(added: Mapping[str, float]) -> Iterator[Reading]:
    for place, value in added.items():
        yield Reading(ADDED_LOSS, place, torch.tensor(value, dtype=torch.float64))


@torch.no_grad()
def after_step(parts: Sequence[tuple[str, ActsAfterStep]], ranks: Ranks) -> list[Reading]:
    return [
        Reading(AFTER_STEP, placed(address, name), torch.as_tensor(number))
        for address, part in parts
        for name, number in part.after_step(_Across(ranks)).items()
    ]


@dataclass(frozen=True, slots=True)
class _Across:
    ranks: Ranks

    def __call__(self, value: Tensor) -> Tensor:
        return self.ranks.total(value)

    def largest(self, value: Tensor) -> Tensor:
        return self.ranks.largest(value)


def placed(address: str, name: str) -> str:
    return f"{address}.{name}".lstrip(".")


# The scale of the loss in float16, whose smallest gradients would be 0, and the steps that it skips.
#
#     ∂(S L)/∂θ / S = ∂L/∂θ       S: what the loss is multiplied by before the backward pass, and gradients divided by
#
#     a gradient is not finite    the step makes no update; S ← S / 2
#     otherwise                   the step is made; after `every` such steps in a row S ← 2 S, at most 2²⁴
#
# S begins at `initial`. Powers of 2 round nothing. A skipped step counts as a step: its batch is used up, and the
# schedule moves on. Where S is 1 a gradient that is not finite is no matter of the scale, and the trial has diverged,
# as it has wherever the loss itself is not finite, since no scale changes the forward pass.
#
#     Micikevicius et al. 2018, arXiv:1710.03740, Sec. 3.2 and 4; every 2000 steps, as in `torch.amp.GradScaler`

LARGEST: Final = 2.0**24


@dataclass
class LossScaling:
    """The scale of the next step, the steps made in a row since it last changed, and those skipped since the first."""

    every: int
    scale: float
    made: int = 0
    skipped: int = 0

    def skips(self, gradient_norm: float) -> bool:
        """True if a step with that gradient is skipped; if not, and it is not finite, the trial has diverged."""
        return self.scale > 1 and not math.isfinite(gradient_norm)

    def after(self, skipped: bool) -> dict[str, float]:
        """Set the scale of the next step, and return the numbers that are recorded of this one."""
        used = self.scale
        if skipped:
            self.scale, self.made, self.skipped = max(1.0, used / 2), 0, self.skipped + 1
        else:
            self.made += 1
            if self.made == self.every:
                self.scale, self.made = min(LARGEST, 2 * used), 0
        return {LOSS_SCALE: used, SKIPPED: float(self.skipped)}

    def state(self) -> dict[str, Any]:
        return {"scale": self.scale, "made": self.made, "skipped": self.skipped}

    def resume(self, state: dict[str, Any]) -> None:
        self.scale, self.made, self.skipped = float(state["scale"]), int(state["made"]), int(state["skipped"])


def loss_scaling(recipe: Recipe) -> LossScaling | None:
    """The scaling of a recipe in float16, before the first step; None in another dtype."""
    if recipe.dtype != "float16":
        return None
    rule = recipe.loss_scale or LossScale()
    return LossScaling(rule.every, float(rule.initial))


@torch.no_grad()
def unscale(gradients: Iterable[Tensor], scale: float) -> None:
    if scale != 1:
        for gradient in gradients:
            gradient.div_(scale)
