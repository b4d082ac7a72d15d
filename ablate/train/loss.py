"""The loss, mean token cross-entropy in nats, what a recipe adds to it, and the precision it is computed in.

    L = - mean_bt log softmax(logits_bt)[target_bt]

    minimised: L + label_smoothing * (U - L) + z * mean_bt Z_bt² + Σ_k ahead_k A_k      and what parts add
                                                                                       (`contributions.py`)
    U = - mean_btv log softmax(logits_bt)[v]        Z_bt = log Σ_v exp(logits_btv)
    A_k = - mean_bt log softmax(logits_k,bt)[target_b,t+k-1]      k = 2, 3, …: the k-th token ahead, where there is one

so that with label smoothing ε the target has a probability of 1 - ε + ε/V, and every other token ε/V. All terms are
linear in the tokens, and recorded apart; `train_loss` and `eval_loss` are L. logits_k are those of a block for the k-th
token ahead (`model.ahead`), as in Gloeckle et al. 2024, where the model has one; else logits, as in modded-nanogpt.
U and Z are of logits alone.

    Szegedy et al. 2016, arXiv:1512.00567, Sec. 7; z: Chowdhery et al. 2022, arXiv:2204.02311, Sec. 5, with z = 1e-4;
    ahead: Gloeckle et al. 2024, arXiv:2404.19737, Eq. 2; Jordan et al. 2024, modded-nanogpt, with weights that fall
    to 0 during training

Dimension key: B batch, T time, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ablate.space.documents import Loss


def forward(model: nn.Module, tokens_BT: Int[Tensor, "B T"], dtype: str) -> Float[Tensor, "B T V"]:
    """Compute the logits; `bfloat16` is autocast over float32 parameters, other types are those of the parameters."""
    with _precision(tokens_BT.device, dtype):
        logits_BTV: Tensor = model(tokens_BT)
    return logits_BTV


def cross_entropy(
    logits_BTV: Float[Tensor, "B T V"], targets_BT: Int[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, "..."]:
    """Compute the token cross-entropy in nats, in float32 at least."""
    logits_BTV = logits_BTV.to(torch.promote_types(logits_BTV.dtype, torch.float32))
    return functional.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten(), reduction=reduction)


def added_by_recipe(
    logits_BTV: Float[Tensor, "B T V"],
    targets_BT: Int[Tensor, "B T"],
    loss: Tensor,
    terms: Loss,
    logits_ahead: Sequence[Float[Tensor, "B T V"]] = (),
) -> Iterator[tuple[str, Tensor]]:
    """Yield what a recipe adds to the cross-entropy `loss`, by place; nothing if its weights are 0.

    `logits_ahead` are those of the second token ahead, the third, and so on, where they have logits of their own.
    """
    for further, weight in enumerate(terms.ahead, start=1):
        if weight:
            of_token = logits_ahead[further - 1] if further <= len(logits_ahead) else logits_BTV
            of_later = cross_entropy(of_token[:, :-further], targets_BT[:, further:])
            yield f"head.ahead.{further + 1}", weight * of_later
    if not (terms.label_smoothing or terms.z):
        return
    logits_BTV = logits_BTV.to(torch.promote_types(logits_BTV.dtype, torch.float32))
    normaliser_BT = logits_BTV.logsumexp(-1)
    if terms.label_smoothing:
        uniform = (normaliser_BT - logits_BTV.mean(-1)).mean()
        yield "head.label_smoothing", terms.label_smoothing * (uniform - loss)
    if terms.z:
        yield "head.z", terms.z * normaliser_BT.square().mean()


def parameter_type(dtype: str) -> torch.dtype:
    """Return the type that a model's parameters have for a recipe's `dtype`: bfloat16 keeps them in float32."""
    return torch.float64 if dtype == "float64" else torch.float32


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's parameters, to which batches are moved."""
    return next(model.parameters()).device


def _precision(device: torch.device, dtype: str) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if dtype == "bfloat16" else nullcontext()
