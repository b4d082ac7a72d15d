"""Biases of the scores: the sum of several sources, the mask written into it, and its precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ablate.kernels.mask import Mask, seen_pairs

BiasSource: TypeAlias = Callable[[Tensor, Tensor, float], Tensor]
"""From queries, keys and the scale of the scores to a bias [1 or B, 1 or H, T, S], in float32 at least.

A result that is not a view is new, and the caller may overwrite it: a source that keeps its bias returns a view.
"""

Source = TypeVar("Source", bound=Callable[..., Tensor])

BiasKind: TypeAlias = Literal["none", "shared", "head", "batch"]
"""A bias over queries and keys only, heads too, or the batch too."""

ROWS = 256  # queries masked at a time: small enough for a small mask, large enough for few steps


def summed(sources: Iterable[BiasSource], q: Tensor, k: Tensor, scale: float) -> Tensor | None:
    total: Tensor | None = None
    for source in sources:
        bias = source(q, k, scale)
        total = bias if total is None else total + bias
    return total


def with_mask(source: Source) -> Source:
    """Mark a source whose bias is -inf wherever causal attention hides a key, so that it is used without a copy."""
    source.__dict__["holds_mask"] = True
    return source


def holds_mask(sources: Iterable[BiasSource]) -> bool:
    """The sum of the biases is -inf wherever causal attention hides a key: one of them is enough."""
    return any(getattr(source, "holds_mask", False) for source in sources)


def kind_of(bias: Float[Tensor, "#B #H T S"] | None) -> BiasKind:
    if bias is None:
        return "none"
    if bias.shape[0] > 1:
        return "batch"
    return "head" if bias.shape[1] > 1 else "shared"


def masked(
    bias: Float[Tensor, "#B #H T S"],
    *,
    overwrite: bool = False,
    done: bool = False,
    seen: Bool[Tensor, "#B 1 T S"] | None = None,
) -> Float[Tensor, "#B #H T S"]:
    """The bias with -inf where a key lies after the query: unchanged if `done`, else in place if allowed.

    A second [T, S] is made only where the first requires a gradient, or may not be overwritten. `seen` hides other keys
    instead: those where it is False.
    """
    if done:
        return bias
    if seen is not None:
        return _masked_by(bias, seen, overwrite=overwrite)
    n_queries, n_keys = bias.shape[-2:]
    if bias.requires_grad:
        future = torch.ones(n_queries, n_keys, dtype=torch.bool, device=bias.device).triu(1)
        return bias.masked_fill(future, -torch.inf)
    result = bias if overwrite and is_own(bias) else bias.clone(memory_format=torch.contiguous_format)
    for first in range(0, n_queries, ROWS):
        last = min(first + ROWS, n_queries)
        block = result[..., first:last, first:last]
        block.masked_fill_(torch.ones(block.shape[-2:], dtype=torch.bool, device=bias.device).triu(1), -torch.inf)
        result[..., first:last, last:] = -torch.inf
    return result


def _masked_by(
    bias: Float[Tensor, "#B #H T S"], seen: Bool[Tensor, "#B 1 T S"], *, overwrite: bool
) -> Float[Tensor, "#B #H T S"]:
    if bias.requires_grad or len(seen) > len(bias):  # the latter: one bias for all sequences, but not one mask
        return bias.where(seen, -torch.inf)
    result = bias if overwrite and is_own(bias) else bias.clone(memory_format=torch.contiguous_format)
    for first in range(0, bias.shape[-2], ROWS):
        rows = slice(first, first + ROWS)
        result[..., rows, :].masked_fill_(~seen[..., rows, :], -torch.inf)
    return result


def is_own(bias: Tensor) -> bool:
    """True for a tensor that shares its memory with none, repeats no element and is not part of a graph."""
    repeats = any(stride == 0 and size > 1 for stride, size in zip(bias.stride(), bias.shape, strict=True))
    return not (repeats or bias.requires_grad or bias._is_view())


def narrowed(bias: Float[Tensor, "#B #H T S"], dtype: torch.dtype) -> Float[Tensor, "#B #H T S"]:
    """The bias in `dtype`; if that type is narrower, each row is first shifted so that its largest number is 0.

    Softmax is invariant to a shift of a row. Without it a bias of hundreds loses whole units in bfloat16; with it the
    largest rounding errors fall on the smallest weights. Every row must have a finite largest number.
    """
    if torch.promote_types(bias.dtype, dtype) == dtype:
        return bias.to(dtype)
    return (bias - bias.detach().amax(-1, keepdim=True)).to(dtype)


# Attention at zero query-key product: the softmax of the bias and the mask alone.
#
#     y = C v        C = softmax(bias), over past tokens only if causal; without a bias C_ts = 1/t for s <= t
#                    under a mask over those that query t sees; without a bias C_ts = 1/n_t, n_t their number
#
#     He & Hofmann 2023, arXiv:2311.01906, Eq. 7.
#
# Maps on the scores do not matter: they map all zeros to the same number. C is not subject to dropout.


def running_mean(v: Float[Tensor, "B H S K"], *, n_queries: int, causal: bool) -> Float[Tensor, "B H T K"]:
    """The mean of the values that each query sees, summed in float32 at least, without any [T, S]."""
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
    """The mean of the values that each query sees, in float32 at least: one product, with a [T, S].

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
    """softmax(bias) v, in float32 at least: one product, with a matrix no larger than the bias.

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
    scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return scores.div_(scores.sum(-1, keepdim=True))
