"""Attention at zero query-key product: the softmax of the bias and the mask alone.

    y = C v        C = softmax(bias), over past tokens only if causal; without a bias C_ts = 1/t for s <= t
                   under a mask over those that query t sees; without a bias C_ts = 1/n_t, n_t their number

    He & Hofmann 2023, arXiv:2311.01906, Eq. 7.

Maps on the scores do not matter here: they map all zeros to the same number, to which softmax is invariant. C does not
depend on the data, and is not subject to dropout.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ablate.kernels.bias import is_own, masked
from ablate.kernels.mask import Mask, seen_pairs


def running_mean(v: Float[Tensor, "B H S K"], *, n_queries: int, causal: bool) -> Float[Tensor, "B H T K"]:
    """Return the mean of the values that each query sees, summed in float32 at least, without any [T, S]."""
    wide = v.to(torch.promote_types(v.dtype, torch.float32))
    n_keys = v.shape[-2]
    if not causal:
        return wide.mean(-2, keepdim=True).to(v.dtype).expand(*v.shape[:-2], n_queries, -1)
    seen = torch.arange(1, n_queries + 1, device=v.device).clamp(max=n_keys)
    sums = wide.cumsum(-2)
    if n_queries != n_keys:
        sums = sums[..., seen - 1, :]
    return (sums / seen.to(wide.dtype)[:, None]).to(v.dtype)


def mean_under_mask(
    v: Float[Tensor, "B H S K"],
    mask: Mask | None,
    padding: Bool[Tensor, "B S"] | None = None,
    *,
    n_queries: int,
    causal: bool,
) -> Float[Tensor, "B H T K"]:
    """Return the mean of the values that each query sees, in float32 at least: one product, with a [T, S].

    A `mask` replaces `causal`; one of them or `padding` must hide something. A query that sees nothing gives 0.
    """
    wide = torch.promote_types(v.dtype, torch.float32)
    pairs = seen_pairs(mask, padding, causal=causal, n_queries=n_queries, n_keys=v.shape[-2], device=v.device)
    assert pairs is not None
    weights = pairs.keys.to(wide)
    weights /= weights.sum(-1, keepdim=True)
    return pairs.zeroed(torch.einsum("bhts,bhsk->bhtk", weights, v.to(wide)).to(v.dtype))


def mean_under_bias(
    v: Float[Tensor, "B H S K"],
    bias: Float[Tensor, "#B #H T S"],
    *,
    causal: bool,
    overwrite: bool = False,
    holds_mask: bool = False,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """Return softmax(bias) v, in float32 at least: one product, with a matrix no larger than the bias.

    With `overwrite` the weights are written over the bias, where that is possible. A `mask` replaces `causal`;
    `padding` is True for the keys that are tokens, and a query that sees none gives 0.
    """
    wide = torch.promote_types(v.dtype, torch.float32)
    size = {"n_queries": bias.shape[-2], "n_keys": bias.shape[-1]}
    pairs = seen_pairs(mask, padding, causal=causal, device=v.device, **size)
    done = (holds_mask and padding is None) or (pairs is None and not causal)
    scores = masked(bias.to(wide), overwrite=overwrite, done=done, seen=None if pairs is None else pairs.keys)
    mine = (overwrite or scores is not bias) and is_own(scores)
    weights = softmax_(scores) if mine else torch.softmax(scores, dim=-1)
    # Unlike matmul, einsum does not copy weights that batch and heads share.
    y = torch.einsum("bhts,bhsk->bhtk", weights, v.to(wide)).to(v.dtype)
    return y if pairs is None else pairs.zeroed(y)


def softmax_(scores: Tensor) -> Tensor:
    """Apply softmax over the last dimension, in place."""
    scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return scores.div_(scores.sum(-1, keepdim=True))
