"""Recall: the stream and a value from earlier, each with its own gain.

    y = skip * x + gain * (value at `of`)

`of: layers.first.in` mixes what entered the first block into the stream again (x0 gains); `of:
layers.(depth+1-layer).out` in the second half of the layers is a U-net's skip.

    Jordan et al. 2024, modded-nanogpt (x0 lambdas, U-net skips); skips of all depths: Pagliardini et al. 2024,
    arXiv:2402.02622.
"""

from ablate.block.equation import total, weighted
from ablate.components.declare import (
    Cost,
    GainMaker,
    Maker,
    Node,
    Signal,
    Sizes,
    component,
    earlier,
    fixed,
    implements,
    scaling,
)


@component("recall", slots=("part",), modifier=True, source="Jordan et al. 2024", shorthand="of", version=1)
class Config:
    """`of` is the address of the value, `skip` multiplies the input, `gain` the value."""

    of: Maker = earlier()
    skip: GainMaker = scaling(per=("scalar", "channel"))
    gain: GainMaker = scaling(per=("scalar", "channel"))

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node | None:
        """Nothing where the input passes as it is."""
        return None if fixed(node["skip"]) == 1 and fixed(node["gain"]) == 0 else node

    def cost(self, sizes: Sizes) -> Cost:
        return sum((self.skip(sizes.d_model), self.gain(sizes.d_model), self.of(sizes.d_model)), Cost())

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """α² Σ + β² Σ_value, and what both have in common."""
        skip, gain = self.skip(sizes.d_model), self.gain(sizes.d_model)
        y: Signal = self.of(sizes.d_model).added(x, skip, (gain,))
        return y

    def equation(self, x: str) -> str:
        return total(weighted(self.skip, x), weighted(self.gain, f"{self.of()}"))


from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Recall(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.skip = config.skip(sizes.d_model)
        self.gain = config.gain(sizes.d_model)
        self.read: Callable[[], Tensor] = config.of(sizes.d_model)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        y: Tensor = self.skip(x) + self.gain(self.read())
        return y
