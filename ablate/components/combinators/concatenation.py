"""Concatenation: what a branch makes stands beside its input, and one matrix reads both: in the place of a skip.

    y = J [x ; N f(x)]        N from the width of the model to `width`, J from both widths back to the model's

At the start it acts as a skip that is weighted down (arXiv:2302.10322, Sec. 2): with N and J of fan-in variance tokens
are as similar behind it as in  α² Σ_x + β² Σ_f,  α² = D / (D + W),  β² = W / (D + W):  the narrower the branch, the
closer to a skip. In CatFormer the stream itself grows by W a layer; here J brings it back to one width, as a product of
the matrices that would read it does.

    Davis et al. 2021, CatFormer: Designing Stable Transformers via Sensitivity Analysis, PMLR 139.

Dimension key: B batch, T time, D width of the model, W width of the branch.
"""

from ablate.components.declare import Cost, Maker, Sizes, component, implements, part, sequence, width


@component(
    "concatenation", slots=("part",), modifier=True, source="Davis et al. 2021, PMLR 139", shorthand="branch", version=1
)
class Config:
    """`width` is W, to which `narrow` N brings the branch, `join` is J."""

    width: int = width()
    narrow: Maker = part("weight")
    join: Maker = part("weight")
    branch: Maker = sequence()

    def cost(self, sizes: Sizes) -> Cost:
        """N, J and the branch."""
        narrow, join = self.narrow(sizes.d_model, self.width), self.join(sizes.d_model + self.width, sizes.d_model)
        cost: Cost = narrow + join + self.branch()
        return cost

    def equation(self, x: str) -> str:
        """[x ; f(x) W^N] W^J."""
        beside = self.narrow(self.branch(x), "W^N")
        return f"{self.join(f'[{x} ; {beside}]', 'W^J')}"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Concatenation(nn.Module):
    """The input beside its branch, read by one matrix."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.narrow = config.narrow(sizes.d_model, config.width)
        self.join = config.join(sizes.d_model + config.width, sizes.d_model)
        self.branch = config.branch()  # not a module: its parts stand beside this one, at their own addresses

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """[B, T, D] -> [B, T, D]."""
        y: Tensor = self.join(torch.cat((x, self.narrow(self.branch(x))), dim=-1))
        return y
