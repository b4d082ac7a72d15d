"""Attention, by whichever backend fits: one function, and the module that stands for it at an address.

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
"""Of the numbers of attention, whichever backend computes it: see `plan/versions.py`."""

BACKENDS: dict[str, Callable[..., Tensor]] = {
    "xformers": attend_xformers,
    "sdpa": attend_sdpa,
    "flex": attend_flex,
    "eager": attend_eager,
}
MASK_IN_BIAS = frozenset({"xformers", "sdpa"})
"""Backends that take a mask or a bias, and so the one within the other."""


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
    """dropout(softmax(maps(scale · q kᵀ) + bias)) v, over the past alone where causal.

    `logits` map the scores, in their order, before bias and mask. `kernel` names the backend; None lets `choose`
    decide, and xformers' dispatcher where it would be that. `holds_mask` says that the bias is -inf where `causal`
    hides a key, `overwrite_bias` that it may be made so.
    Raises ValueError for a kernel that does not exist or cannot do it.
    """
    device = q.device.type
    needs = needs_of(q, k, v, causal=causal, logits=logits, bias=bias, dropout=dropout)
    if kernel is not None and kernel not in BACKENDS:
        raise ValueError(f"no kernel {kernel!r}: there are {', '.join(BACKENDS)}")
    if kernel and (against := objection(kernel, needs, device)):
        raise ValueError(f"kernel {kernel!r}: {against}")
    name = kernel or choose(needs, device).name
    if name == "xformers":
        found = dispatch(q, k, v, causal=causal, scale=scale, bias=bias, dropout=dropout)
        if found.refusal and kernel:
            raise ValueError(f"kernel {kernel!r}: {found.refusal}")
        if found.refusal:
            name = choose(needs, device, {"xformers": found.refusal}).name
    asked: dict[str, Any] = {"causal": causal, "scale": scale, "bias": bias}
    # A backend is handed what it takes: the planner gives none what it objects to.
    if logits:
        asked["logits"] = logits
    if dropout:
        asked = dict(asked, dropout=dropout)
    if name in MASK_IN_BIAS:
        asked |= {"overwrite_bias": overwrite_bias, "holds_mask": holds_mask}
    with as_given(device):
        return BACKENDS[name](q, k, v, **asked)


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
    """What an attention with these inputs asks of a backend."""
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

    `biases` are sources of what is added to the scores; what they learn belongs to the parts that they come from.
    `kernel` is the backend once one was chosen (see `gate`); None: chosen anew for every call. While `asked` is set, it
    is told what enters, and nothing is attended to: each query gets the mean of the values that it sees.
    """

    kernel: str | None = None
    asked: Callable[[Tensor, Tensor, Tensor], None] | None = None

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
        """A V: the mean of the values that each query attends to."""
        # Under autocast a norm gives float32 queries and keys beside bfloat16 values; fused kernels want one type.
        dtype = working_dtype(v)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        if self.asked is not None:
            self.asked(q, k, v)
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
        """What is added to the scores of these queries and keys; None where nothing is."""
        with as_given(q.device.type):
            return summed(self.biases, q, k, self.scale)

    def uniform(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        """C V: attention at zero query-key product, under the same mask and bias (arXiv:2311.01906, Eq. 7).

        Without a bias it is a mean over the keys seen, with no [T, S] at all; with one, one product with softmax(bias).
        """
        if not self.biases:
            return running_mean(v, n_queries=q.shape[-2], causal=self.causal)
        bias = self.bias(torch.zeros_like(q), k)
        assert bias is not None
        with as_given(v.device.type):
            return mean_under_bias(v, bias, causal=self.causal, overwrite=True, holds_mask=self.holds_mask)

    def needs(self, q: Tensor, k: Tensor, v: Tensor) -> Needs:
        """What these inputs ask of a backend in training."""
        asked = needs_of(q, k, v, causal=self.causal, logits=self.logits, bias=self.bias(q, k), dropout=self.dropout)
        return replace(asked, dtype=str(working_dtype(v)).removeprefix("torch."), gradient=True)
