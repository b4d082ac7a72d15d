"""Residual: a skip past a branch, each with its own gain.

    y = skip * x + gain * branch(x)

The norm's position is not a flag: Pre-LN is `residual: [layer_norm, attention]`, Post-LN is `[residual: [attention],
layer_norm]`. A fixed skip of 0 is no skip at all; with a fixed gain of 1 as well, the residual is its branch.

    He et al. 2016, arXiv:1512.03385; the gains as alpha and beta of arXiv:2302.10322, Eq. 6 (normalised skips).
"""

from ablate.block.catalogue import Transparent
from ablate.block.equation import total, weighted
from ablate.components.declare import Cost, GainMaker, Maker, Signal, Sizes, component, implements, scaling, sequence


@component(
    "residual",
    slots=("part",),
    modifier=True,
    source="He et al. 2016, arXiv:1512.03385",
    shorthand="branch",
    transparent=Transparent(when={"skip": 0.0, "gain": 1.0}, keep="branch"),
    sums=("skip", "gain"),
    version=1,
)
class Config:
    """`skip` multiplies the input, `gain` the branch: scalars or one number per channel."""

    skip: GainMaker = scaling(per=("scalar", "channel"))
    gain: GainMaker = scaling(per=("scalar", "channel"))
    branch: Maker = sequence()

    def cost(self, sizes: Sizes) -> Cost:
        return sum((self.skip(sizes.d_model), self.gain(sizes.d_model), self.branch()), Cost())

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """α² Σ + β² Σ_f, and what skip and branch have in common."""
        skip, gain = self.skip(sizes.d_model), self.gain(sizes.d_model)
        return x.forked(lambda x: (x.times(skip), self.branch(x).times(gain)))

    def equation(self, x: str) -> str:
        return total(weighted(self.skip, x), weighted(self.gain, self.branch(x)))


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Residual(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.skip = config.skip(sizes.d_model) if config.skip.value != 0 else None
        self.gain = config.gain(sizes.d_model)
        self.branch = config.branch()  # not a module: its parts are registered beside this one, at their own addresses

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        branch: Tensor = self.gain(self.branch(x))
        return branch if self.skip is None else branch + self.skip(x)
