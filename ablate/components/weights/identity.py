"""Identity: no weight at all; the output is the input.

y = x

He & Hofmann 2024, arXiv:2311.01906, Sec. 4.2: values and projections of the simplified attention block.
"""

from ablate.components.declare import Cost, Signal, Sizes, component, implements
from ablate.errors import InputError


@component("identity", slots=("weight",), source="He & Hofmann 2024, arXiv:2311.01906", version=1)
class Config:
    """Nothing to choose; both widths must be the same."""

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        """Raise InputError if the widths differ."""
        if d_in != d_out:
            raise InputError(
                f"identity is used where a width of {d_in} becomes {d_out}\n"
                "  = it keeps the width: choose another weight there"
            )
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        return x

    def equation(self, x: str, w: str) -> str:
        return x


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Identity(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        config.cost(sizes, d_in, d_out)

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return x
