"""Sigmoid gate: each entry, or each head, of a signal times a factor between 0 and `factor`, decided by the input.

    y' = y ⊙ factor σ(x_{1..I} W)        per channel: W is [I, d_out]; per head: [I, heads], the same factor for a head

The first I channels of the input are read (`inputs`). With W = 0 the factor starts at factor / 2: with a factor of 2 it
starts open. After attention it makes the map from values to output nonlinear, and removes attention sinks (Sec. 4).

    Qiu et al. 2025, Gated Attention for Large Language Models, arXiv:2505.06708, Eq. 5 and Table 1 (G1).
"""

from typing import Any

from ablate.components.declare import Cost, Maker, Signal, Sizes, component, implements, number, part, width, word
from ablate.errors import InputError


@component("sigmoid_gate", slots=("gate",), source="Qiu et al. 2025, arXiv:2505.06708", version=1)
class Config:
    """`weight` is W, `per` what shares a factor, `inputs` the channels of the input that are read."""

    weight: Maker = part("weight")
    per: str = word("channel", "head")
    inputs: int = width()
    factor: float = number(above=0.0)

    def cost(self, sizes: Sizes, d_out: int, heads: int) -> Cost:
        """Raise InputError for more inputs than the model has channels."""
        self.check_inputs(sizes)
        cost: Cost = self.weight(self.inputs, d_out if self.per == "channel" else heads)
        return cost

    def propagate(self, x: Signal, sizes: Sizes, y: Signal, d_out: int, heads: int) -> Signal:
        """Σ_y ⊙ factor² E[σ(u_i) σ(u_j)], u = x W; back Γ ⊙ Σ_y E[σ'(u_i) σ'(u_j)] to u, of all channels of a head."""
        self.check_inputs(sizes)
        factors = d_out if self.per == "channel" else heads
        read = x.with_gradient_times(self.inputs / sizes.d_model)
        gate: Signal = self.weight(read, self.inputs, factors).activated(self).times(self.factor)
        return y.gated(gate.with_gradient_times(d_out / factors))

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        s = np.exp(-np.logaddexp(0, -x))
        ds = s * (1 - s)
        return s, ds, ds * (1 - 2 * s)

    def check_inputs(self, sizes: Sizes) -> None:
        if self.inputs > sizes.d_model:
            raise InputError(
                f"sigmoid_gate.inputs is {self.inputs}, but the model is {sizes.d_model} wide\n"
                "  = read at most that many channels, such as 1x"
            )

    def equation(self, x: str, y: str) -> str:
        times = "" if self.factor == 1 else f"{self.factor:g} "
        return f"({y} ⊙ {times}σ({self.weight(x, 'W^G')}))"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class SigmoidGate(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, d_out: int, heads: int):
        super().__init__()
        config.check_inputs(sizes)
        self.inputs, self.factor = config.inputs, config.factor
        self.per_head, self.heads = config.per == "head", heads
        self.weight = config.weight(config.inputs, heads if self.per_head else d_out)

    def forward(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T O"]) -> Float[Tensor, "B T O"]:
        open_by: Tensor = self.factor * torch.sigmoid(self.weight(x[..., : self.inputs]))
        if not self.per_head:
            return y * open_by
        by_head = y.reshape(*y.shape[:-1], self.heads, -1) * open_by[..., None]
        return by_head.flatten(-2)
