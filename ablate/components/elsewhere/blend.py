"""Blend: a weight's output and a second one's, each with its own gain.

    y = own_gain * own(x) + gain * beside(x)

`beside: {from: layers.first.attention.value}` mixes the values of each layer with those of the first, a residual of
values; `beside: lookup` adds an embedding of the token, a value embedding. `own` has the random numbers that it would
have alone in the slot.

    Zhou et al. 2024, Value Residual Learning, arXiv:2410.17897 (λ_1 = λ_2 = 1/2, or trained); Jordan et al. 2024,
    modded-nanogpt (trained gains, value embeddings).
"""

from ablate.block.equation import total, weighted
from ablate.components.declare import (
    Cost,
    GainMaker,
    Maker,
    Node,
    Signal,
    Sizes,
    Value,
    component,
    fixed,
    implements,
    part,
    scaling,
)


@component("blend", slots=("weight",), source="Zhou et al. 2024, arXiv:2410.17897", version=1)
class Config:
    """`own` is the weight itself, `beside` what is added; `own_gain` and `gain` multiply them."""

    own: Maker = part("weight")
    beside: Maker = part("weight")
    own_gain: GainMaker = scaling(per=("scalar", "channel"))
    gain: GainMaker = scaling(per=("scalar", "channel"))

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Value:
        """The weight itself where nothing is added to it: a value that is read, times 0."""
        read = isinstance(node["beside"], Node) and node["beside"].name == "from"
        return node["own"] if read and fixed(node["own_gain"]) == 1 and fixed(node["gain"]) == 0 else node

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        both = (self.own(d_in, d_out), self.beside(d_in, d_out))
        return sum((*both, self.own_gain(d_out), self.gain(d_out)), Cost())

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """λ_1² Σ_own + λ_2² Σ_beside, and what both have in common."""
        gains = (self.own_gain(d_out), self.gain(d_out))
        both = ((self.own, gains[0]), (self.beside, gains[1]))
        return x.forked(lambda x: [weight(x, d_in, d_out).times(gain) for weight, gain in both])

    def equation(self, x: str, w: str) -> str:
        beside = self.beside(x, f"{w}'")
        return f"({total(weighted(self.own_gain, self.own(x, w)), weighted(self.gain, beside))})"


from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Blend(nn.Module):
    in_its_place: ClassVar[str] = "own"

    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        self.own = config.own(d_in, d_out)
        self.beside = config.beside(d_in, d_out)
        self.own_gain = config.own_gain(d_out)
        self.gain = config.gain(d_out)

    def forward(self, x: Float[Tensor, "*rest I"]) -> Float[Tensor, "*rest O"]:
        y: Tensor = self.own_gain(self.own(x)) + self.gain(self.beside(x))
        return y
