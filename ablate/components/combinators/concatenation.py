"""Concatenation: a branch's output is concatenated with its input, and one matrix reads both, in place of a skip.

    y = J [x ; N f(x)]        N from the width D of the model to `width` W, J from both widths back to the model's

Initially it acts as a down-weighted skip (arXiv:2302.10322, Sec. 2): with N and J of fan-in variance, token
similarities after it are  α² Σ_x + β² Σ_f,  α² = D / (D + W),  β² = W / (D + W). In CatFormer the stream itself grows
by W per layer; here J maps it back to one width.

    Davis et al. 2021, CatFormer: Designing Stable Transformers via Sensitivity Analysis, PMLR 139.
"""

from ablate.components.declare import Cost, Maker, Signal, Sizes, component, implements, part, sequence, width


@component(
    "concatenation", slots=("part",), modifier=True, source="Davis et al. 2021, PMLR 139", shorthand="branch", version=1
)
class Config:
    """`narrow` N maps the branch to `width` W; `join` is J."""

    width: int = width()
    narrow: Maker = part("weight")
    join: Maker = part("weight")
    branch: Maker = sequence()

    def cost(self, sizes: Sizes) -> Cost:
        narrow, join = self.narrow(sizes.d_model, self.width), self.join(sizes.d_model + self.width, sizes.d_model)
        cost: Cost = narrow + join + self.branch()
        return cost

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """J's of (D Σ_x + W Σ_n) / (D + W), with n = N f(x): rows of J are independent, so skip and branch are, too."""
        from ablate.signal.propagation import concatenated

        widths = (sizes.d_model, self.width)

        def joined(x: Signal) -> Signal:
            both = concatenated((x, self.narrow(self.branch(x), *widths)), widths)
            y: Signal = self.join(both, sum(widths), sizes.d_model)
            return y

        return x.forked(lambda x: [joined(x)])

    def equation(self, x: str) -> str:
        beside = self.narrow(self.branch(x), "W^N")
        return f"{self.join(f'[{x} ; {beside}]', 'W^J')}"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Concatenation(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.narrow = config.narrow(sizes.d_model, config.width)
        self.join = config.join(sizes.d_model + config.width, sizes.d_model)
        self.branch = config.branch()  # not a module: its parts are registered beside this one, at their own addresses

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        y: Tensor = self.join(torch.cat((x, self.narrow(self.branch(x))), dim=-1))
        return y
