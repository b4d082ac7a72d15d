"""Attention, by whichever backend fits: one function, and the module that stands for it at an address.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.bias import BiasSource, summed
from ablate.kernels.choose import Needs, choose, objection
from ablate.kernels.eager import LogitMap, attend_eager
from ablate.kernels.sdpa import attend_sdpa
from ablate.kernels.xformers import attend_xformers

FUSED = {"sdpa": attend_sdpa, "xformers": attend_xformers}


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
) -> Float[Tensor, "B H T K"]:
    """dropout(softmax(maps(scale · q kᵀ) + bias)) v, over the past alone where causal.

    `logits` map the scores, in their order, before bias and mask. `kernel` names the backend; None lets `choose`
    decide. Raises ValueError for a kernel that does not exist or cannot do it.
    """
    needs = Needs(
        causal=causal,
        logit_maps=bool(logits),
        bias=bias is not None,
        dropout=dropout > 0,
        dtype=str(q.dtype).removeprefix("torch."),
    )
    name = kernel or choose(needs, q.device.type).name
    if kernel and (against := objection(kernel, needs, q.device.type)):
        raise ValueError(f"kernel {kernel!r}: {against}")
    if name == "eager":
        return attend_eager(q, k, v, causal=causal, scale=scale, logits=logits, bias=bias, dropout=dropout)
    if name not in FUSED:
        raise ValueError(f"no kernel {name!r}: there are eager, {', '.join(FUSED)}")
    return FUSED[name](q, k, v, causal=causal, scale=scale, bias=bias, dropout=dropout)


class Attend(nn.Module):
    """`attend` at an address, so that probes can hook queries, keys and values as they enter it. No parameters.

    `biases` are sources of what is added to the scores; what they learn belongs to the parts that they come from.
    """

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
        self.dropout = dropout

    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        """A V: the mean of the values that each query attends to."""
        # Under autocast a norm gives float32 queries and keys beside bfloat16 values; fused kernels want one type.
        q, k = q.to(v.dtype), k.to(v.dtype)
        return attend(
            q,
            k,
            v,
            causal=self.causal,
            scale=self.scale,
            logits=self.logits,
            bias=self.bias(q, k),
            dropout=self.dropout if self.training else 0.0,
        )

    def bias(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]) -> Float[Tensor, "#B #H T S"] | None:
        """What is added to the scores of these queries and keys; None where nothing is."""
        return summed(self.biases, q, k, self.scale)

    def uniform(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        """C V: attention at zero query-key product, under the same mask and bias (arXiv:2311.01906, Eq. 7).

        Without a bias it is a mean over the keys seen, summed in float32 at least: no [T, S] at all.
        """
        if self.biases:
            return self(torch.zeros_like(q), k, v)
        wide = v.to(torch.promote_types(v.dtype, torch.float32))
        if not self.causal:
            return wide.mean(-2, keepdim=True).expand_as(wide).to(v.dtype)
        counts = torch.arange(1, v.shape[-2] + 1, device=v.device, dtype=wide.dtype)
        return (wide.cumsum(-2) / counts[:, None]).to(v.dtype)
