"""The cross-entropy in nats, what a recipe adds to it, and the precision it is computed in.

    L = - mean_n log softmax(logits_n)[target_n]        over the targets n of an objective (`objectives/`)

    minimised: L + label_smoothing * (U - L) + z * mean_n Z_n² + Σ_k ahead_k A_k        and what parts add
                                                                                       (`contributions.py`)
    U = - mean_nv log softmax(logits_n)[v]          Z_n = log Σ_v exp(logits_nv)
    A_k = - mean_bt log softmax(logits_k,bt)[target_b,t+k-1]      k = 2, 3, …: the k-th token ahead, where there is one

so that with label smoothing ε the target has a probability of 1 - ε + ε/V, and every other token ε/V. All terms are
linear in the targets, and recorded apart; `train_loss` and `eval_loss` are L. A_k are of the next token alone:
logits_k are those of a block for the k-th token ahead (`model.ahead`), as in Gloeckle et al. 2024, where the model has
one; else logits, as in modded-nanogpt. U and Z are of logits alone.

    Szegedy et al. 2016, arXiv:1512.00567, Sec. 7; z: Chowdhery et al. 2022, arXiv:2204.02311, Sec. 5, with z = 1e-4;
    ahead: Gloeckle et al. 2024, arXiv:2404.19737, Eq. 2; Jordan et al. 2024, modded-nanogpt, with weights that fall
    to 0 during training

Dimension key: B batch, T time, V vocabulary, N targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ablate.data.batch import Tensors
from ablate.space.documents import Loss

HALF: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""The types of half precision, of products: parameters, their gradients and sums are in float32."""


def forward(model: nn.Module, inputs: Tensors, dtype: str) -> Any:
    """Compute the output, such as logits; `bfloat16` and `float16` are autocast over float32 parameters, other types
    are those of the parameters.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else inputs
    with _precision(given[0].device, dtype):
        return model(*given)


def cross_entropy(
    logits_NV: Float[Tensor, "*N V"], targets_N: Int[Tensor, "*N"], reduction: str = "mean"
) -> Float[Tensor, "..."]:
    """Compute the cross-entropy in nats, in float32 at least; the mean of no targets is 0."""
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32)).flatten(0, -2)
    if not targets_N.numel():
        return logits_NV.sum()
    return functional.cross_entropy(logits_NV, targets_N.flatten(), reduction=reduction)


def added_by_recipe(logits_NV: Float[Tensor, "*N V"], loss: Tensor, terms: Loss) -> Iterator[tuple[str, Tensor]]:
    """Yield what a recipe adds to the cross-entropy `loss` of these targets, by place; nothing if its weights are 0."""
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
    """Yield the weighted cross-entropies of tokens further ahead than the next, by place.

    `logits_ahead` are those of the second token ahead, the third, and so on, where they have logits of their own.
    """
    for further, weight in enumerate(terms.ahead, start=1):
        if weight:
            of_token = logits_ahead[further - 1] if further <= len(logits_ahead) else logits_BTV
            of_later = cross_entropy(of_token[:, :-further], targets_BT[:, further:])
            yield f"head.ahead.{further + 1}", weight * of_later


def _mean(numbers: Tensor) -> Tensor:
    """Return the mean, 0 of none."""
    return numbers.mean() if numbers.numel() else numbers.sum()


def parameter_type(dtype: str) -> torch.dtype:
    """Return the type that a model's parameters have for a recipe's `dtype`: half precision keeps them in float32."""
    return torch.float64 if dtype == "float64" else torch.float32


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's parameters, to which batches are moved."""
    return next(model.parameters()).device


def _precision(device: torch.device, dtype: str) -> AbstractContextManager[object]:
    return torch.autocast(device.type, HALF[dtype]) if dtype in HALF else nullcontext()
