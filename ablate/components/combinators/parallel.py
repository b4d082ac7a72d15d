"""Parallel: a skip past several branches that all read the same input.

    y = skip * x + gain * (branch_1(x) + branch_2(x) + …)

For one gain per branch, make each branch a `residual: {skip: 0, gain: …}`. A fixed skip of 0 is no skip at all.

    Wang & Komatsuzaki 2021, GPT-J-6B (mesh-transformer-jax); arXiv:2311.01906, Sec. 4.3.
"""

from ablate.block.equation import total, weighted
from ablate.components.declare import (
    Cost,
    GainMaker,
    Maker,
    Node,
    Signal,
    Sizes,
    branches,
    component,
    implements,
    scaling,
)
from ablate.errors import InputError


@component(
    "parallel",
    slots=("part",),
    modifier=True,
    source="Wang & Komatsuzaki 2021, GPT-J-6B",
    shorthand="branches",
    sums=("skip", "gain"),
    version=1,
)
class Config:
    """`skip` multiplies the input, `gain` the sum of the branches: scalars or one number per channel."""

    skip: GainMaker = scaling(per=("scalar", "channel"))
    gain: GainMaker = scaling(per=("scalar", "channel"))
    branches: tuple[Maker, ...] = branches()

    def __post_init__(self) -> None:
        if not self.branches:
            raise InputError("parallel has no branches\n  = give it at least one: branches: [[attention], [mlp]]")

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        inside = node["branches"]
        if not isinstance(inside, tuple) or len(inside) != 1:
            return node
        return Node("residual", (("skip", node["skip"]), ("gain", node["gain"]), ("branch", inside[0])))

    def cost(self, sizes: Sizes) -> Cost:
        gains = (self.skip(sizes.d_model), self.gain(sizes.d_model))
        return sum((*gains, *(branch() for branch in self.branches)), Cost())

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """α² Σ + β² (Σ_f1 + Σ_f2 + …), and what skip and branches have in common."""
        skip, gain = self.skip(sizes.d_model), self.gain(sizes.d_model)
        return x.forked(lambda x: (x.times(skip), *(branch(x).times(gain) for branch in self.branches)))

    def equation(self, x: str) -> str:
        return total(weighted(self.skip, x), weighted(self.gain, total(*(branch(x) for branch in self.branches))))


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Parallel(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.skip = config.skip(sizes.d_model) if config.skip.value != 0 else None
        self.gain = config.gain(sizes.d_model)
        self.branches = tuple(branch() for branch in config.branches)  # not modules: parts belong to the block

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        first, *others = (branch(x) for branch in self.branches)
        summed: Tensor = self.gain(sum(others, first))
        return summed if self.skip is None else summed + self.skip(x)
