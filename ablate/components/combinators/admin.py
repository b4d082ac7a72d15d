"""Admin: a residual whose skip has one trained number per channel, set from the first batch.

    y = ω ⊙ x + f(x)

    profiling        one forward pass at ω = 1 over the first batch, which measures Var[f_i(x_{i-1})] of each sub-layer
    initialisation   ω_1 = 1        ω_i² = Var[x_0] + Σ_{j<i} Var[f_j(x_{j-1})]        the same in every channel

The sub-layers are the `admin`s of the model, i = 1, 2, … in order of the forward pass, and x_0 is the input of the
first. In Post-LN each residual then weighs earlier layers as Pre-LN would. A variance is over all entries of the batch.
As in the authors' code, ω_1 is 1 and the embedding is the first term of the sum; there the pass reaches later
sub-layers with the earlier ω already set, here with every ω at 1.

    Liu et al. 2020, arXiv:2004.08249: Admin's profiling phase and initialisation phase.
"""

from collections.abc import Sequence

from ablate.components.declare import Cost, Maker, Signal, Sizes, component, implements, sequence


@component(
    "admin", slots=("part",), modifier=True, source="Liu et al. 2020, arXiv:2004.08249", shorthand="branch", version=1
)
class Config:
    """`branch` is the sub-layer f; the norm after it (Post-LN) follows in the block's own sequence."""

    branch: Maker = sequence()

    def cost(self, sizes: Sizes) -> Cost:
        cost: Cost = self.branch() + Cost(parameters=sizes.d_model)
        return cost

    def measure_signal(self, x: Signal, sizes: Sizes) -> tuple[float, float]:
        """Var[x] and Var[f(x)] over channels and tokens, as the profiling pass finds them."""
        return x.variance, x.forked(lambda x: [self.branch(x)]).variance

    def propagate(self, x: Signal, sizes: Sizes, earlier: Sequence[tuple[float, float]] = ()) -> Signal:
        """ω² Σ + Σ_f, and what both have in common; ω of what is measured at ω = 1 in the `earlier` ones, 1 without."""
        omega = (earlier[0][0] + sum(branch for _, branch in earlier)) ** 0.5 if earlier else 1.0
        return x.forked(lambda x: (x.times(omega), self.branch(x)))

    def equation(self, x: str) -> str:
        return f"ω ⊙ {x} + {self.branch(x)}"


import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Admin(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.omega = nn.Parameter(torch.ones(sizes.d_model))
        self.branch = config.branch()  # not a module: its parts are registered beside this one, at their own addresses

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        y: Tensor = self.omega * x + self.branch(x)
        return y

    def measure(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"]) -> tuple[float, float]:
        branch = y.double() - self.omega.double() * x.double()
        return x.double().var(correction=0).item(), branch.var(correction=0).item()

    def calibrate(self, earlier: Sequence[tuple[float, float]]) -> None:
        if earlier:
            first = earlier[0][0]
            nn.init.constant_(self.omega, math.sqrt(first + sum(branch for _, branch in earlier)))
