"""Attention by whichever backend fits: one function, and the module that wraps it at an address.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.bias import BiasSource, holds_mask, kind_of, summed
from ablate.kernels.choose import Needs, choose, objection
from ablate.kernels.eager import LogitMap, attend_eager
from ablate.kernels.flex import attend_flex
from ablate.kernels.precision import as_given, working_dtype
from ablate.kernels.sdpa import attend_sdpa
from ablate.kernels.uniform import mean_under_bias, running_mean
from ablate.kernels.xformers import attend_xformers, dispatch

VERSION: Final = 1
"""The version of the numbers of attention, by whichever backend: see `plan/versions.py`."""

BACKENDS: dict[str, Callable[..., Tensor]] = {
    "xformers": attend_xformers,
    "sdpa": attend_sdpa,
    "flex": attend_flex,
    "eager": attend_eager,
}
MASK_IN_BIAS = frozenset({"xformers", "sdpa"})
"""Backends that take either a mask or a bias, so that a bias must contain the mask."""


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
    kernel: str | None = None,
    overwrite_bias: bool = False,
    holds_mask: bool = False,
) -> Float[Tensor, "B H T K"]:
    """dropout(softmax(maps(scale · q kᵀ) + bias)) v, over past tokens only if causal.

    `logits` map the scores, in this order, before bias and mask. `kernel` names the backend; if None, `choose` decides,
    and for xformers also its dispatcher. `holds_mask`: the bias is already -inf where `causal` hides a key;
    `overwrite_bias`: it may be set so in place.
    Raises ValueError for a kernel that does not exist or does not support the inputs.
    """
    device = q.device.type
    needs = needs_of(q, k, v, causal=causal, logits=logits, bias=bias, dropout=dropout)
    if kernel is not None and kernel not in BACKENDS:
        raise ValueError(f"unknown kernel {kernel!r}: there are {', '.join(BACKENDS)}")
    if kernel and (against := objection(kernel, needs, device)):
        raise ValueError(f"kernel {kernel!r}: {against}")
    name = kernel or choose(needs, device).name
    if name == "xformers":
        dispatched = dispatch(q, k, v, causal=causal, scale=scale, bias=bias, dropout=dropout)
        if dispatched.refusal and kernel:
            raise ValueError(f"kernel {kernel!r}: {dispatched.refusal}")
        if dispatched.refusal:
            name = choose(needs, device, {"xformers": dispatched.refusal}).name
    options: dict[str, Any] = {"causal": causal, "scale": scale, "bias": bias}
    # Only backends that support maps or dropout get them: `choose` and `objection` have excluded the others.
    if logits:
        options["logits"] = logits
    if dropout:
        options = dict(options, dropout=dropout)
    if name in MASK_IN_BIAS:
        options |= {"overwrite_bias": overwrite_bias, "holds_mask": holds_mask}
    with as_given(device):
        return BACKENDS[name](q, k, v, **options)


def needs_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    logits: tuple[LogitMap, ...],
    bias: Tensor | None,
    dropout: float,
) -> Needs:
    """Return what an attention with these inputs needs from a backend."""
    tracked = torch.is_grad_enabled()
    bias_gradient = tracked and bias is not None and bias.requires_grad
    return Needs(
        causal=causal,
        dtype=str(q.dtype).removeprefix("torch."),
        logit_maps=bool(logits),
        bias=kind_of(bias),
        dropout=dropout > 0,
        gradient=bias_gradient or (tracked and (q.requires_grad or k.requires_grad or v.requires_grad)),
        bias_gradient=bias_gradient,
        d_head=q.shape[-1],
    )


class Attend(nn.Module):
    """`attend` at an address, so that probes can hook queries, keys and values as they enter it. No parameters.

    `biases` are sources of what is added to the scores; their parameters belong to the parts that they come from.
    `kernel` is the backend once one was chosen (see `gate`); None: chosen anew for every call. While `observer` is set,
    it receives q, k and v, and no attention is computed: each query gets the mean of the values that it sees.
    """

    kernel: str | None = None
    observer: Callable[[Tensor, Tensor, Tensor], None] | None = None

    def __init__(
        self,
        *,
        causal: bool,
        scale: float,
        logits: tuple[LogitMap, ...] = (),
        biases: tuple[BiasSource, ...] = (),
        dropout: float = 0.0,
    ):
        super().__init__()
        self.causal = causal
        self.scale = scale
        self.logits = logits
        self.biases = biases
        self.holds_mask = holds_mask(biases)
        self.dropout = dropout

    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        """Return A V, the weighted mean of the values that each query attends to."""
        # Under autocast a norm gives float32 queries and keys beside bfloat16 values; fused kernels need one dtype.
        dtype = working_dtype(v)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        if self.observer is not None:
            self.observer(q, k, v)
            return running_mean(v, n_queries=q.shape[-2], causal=self.causal)
        return attend(
            q,
            k,
            v,
            causal=self.causal,
            scale=self.scale,
            logits=self.logits,
            bias=self.bias(q, k),
            dropout=self.dropout if self.training else 0.0,
            kernel=self.kernel,
            overwrite_bias=True,
            holds_mask=self.holds_mask,
        )

    def bias(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]) -> Float[Tensor, "#B #H T S"] | None:
        """Return what is added to the scores of these queries and keys; None if nothing is."""
        with as_given(q.device.type):
            return summed(self.biases, q, k, self.scale)

    def uniform(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        """Return C V, attention at zero query-key product under the same mask and bias (arXiv:2311.01906, Eq. 7).

        Without a bias it is a mean over the visible keys, with no [T, S]; with one, one product with softmax(bias).
        """
        if not self.biases:
            return running_mean(v, n_queries=q.shape[-2], causal=self.causal)
        bias = self.bias(torch.zeros_like(q), k)
        assert bias is not None
        with as_given(v.device.type):
            return mean_under_bias(v, bias, causal=self.causal, overwrite=True, holds_mask=self.holds_mask)

    def needs(self, q: Tensor, k: Tensor, v: Tensor) -> Needs:
        """Return what these inputs need from a backend in training."""
        needs = needs_of(q, k, v, causal=self.causal, logits=self.logits, bias=self.bias(q, k), dropout=self.dropout)
        return replace(needs, dtype=str(working_dtype(v)).removeprefix("torch."), gradient=True)
