"""Learned sink: one trained number for each head is one more logit of every softmax, of a key without a value.

    A = softmax([S, b]) without its last column        A_ij = exp(S_ij) / (exp(b_h) + Σ_m exp(S_im))

A head that finds nothing gives its weight to b, not to some token (the first, mostly). The sink is neither scaled,
mapped, biased nor hidden. b = 0 is the softmax that has 1 added to its denominator; the further below 0, the closer to
plain attention.

    OpenAI 2025, gpt-oss-120b & gpt-oss-20b, arXiv:2508.10925, Sec. 2.2; with b = 0: Miller 2023, Attention Is Off By
    One; why models make sinks of tokens: Xiao et al. 2023, arXiv:2309.17453.
"""

from ablate.components.declare import Cost, Sizes, arithmetic, component, implements


@component("learned_sink", slots=("sink",), source="OpenAI 2025, arXiv:2508.10925", shorthand="init", version=1)
class Config:
    """`init` is the number at which every head's b starts."""

    init: float = arithmetic()

    def cost(self, sizes: Sizes, heads: int) -> Cost:
        return Cost(parameters=heads)

    def propagate(self, sizes: Sizes) -> float:
        return self.init

    def equation(self) -> str:
        return "b"

    def details(self) -> tuple[str, ...]:
        return (f"b ∈ ℝ^H,  at first {self.init}",)


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class LearnedSink(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, heads: int):
        super().__init__()
        self.logit = nn.Parameter(torch.full((heads,), float(config.init)))

    def logits(self) -> Float[Tensor, "H"]:
        return self.logit
