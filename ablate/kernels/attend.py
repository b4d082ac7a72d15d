"""Attention, by whichever backend fits: one function, and the module that stands for it at an address.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

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
    kernel: str | None = None,
) -> Float[Tensor, "B H T K"]:
    """softmax(maps(scale · q kᵀ)) v, over the past alone where causal.

    `logits` map the scores, in their order, before masking. `kernel` names the backend; None lets `choose` decide.
    Raises ValueError for a kernel that does not exist or cannot do it.
    """
    needs = Needs(causal=causal, logit_maps=bool(logits), dtype=str(q.dtype).removeprefix("torch."))
    name = kernel or choose(needs, q.device.type).name
    if kernel and (against := objection(kernel, needs, q.device.type)):
        raise ValueError(f"kernel {kernel!r}: {against}")
    if name == "eager":
        return attend_eager(q, k, v, causal=causal, scale=scale, logits=logits)
    if name not in FUSED:
        raise ValueError(f"no kernel {name!r}: there are eager, {', '.join(FUSED)}")
    return FUSED[name](q, k, v, causal=causal, scale=scale)


class Attend(nn.Module):
    """`attend` at an address, so that probes can hook queries, keys and values as they enter it. No parameters."""

    def __init__(self, *, causal: bool, scale: float, logits: tuple[LogitMap, ...] = ()):
        super().__init__()
        self.causal = causal
        self.scale = scale
        self.logits = logits

    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        """The mean of the values that each query attends to."""
        # Under autocast a norm gives float32 queries and keys beside bfloat16 values; fused kernels want one type.
        q, k = q.to(v.dtype), k.to(v.dtype)
        return attend(q, k, v, causal=self.causal, scale=self.scale, logits=self.logits)
