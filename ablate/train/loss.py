"""The loss, mean token cross-entropy in nats, and the precision it is computed in.

    L = - mean_bt log softmax(logits_bt)[target_bt]

Dimension key: B batch, T time, V vocabulary.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


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


def parameter_type(dtype: str) -> torch.dtype:
    """Return the type that a model's parameters have for a recipe's `dtype`: bfloat16 keeps them in float32."""
    return torch.float64 if dtype == "float64" else torch.float32


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's parameters, to which batches are moved."""
    return next(model.parameters()).device


def _precision(device: torch.device, dtype: str) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if dtype == "bfloat16" else nullcontext()
