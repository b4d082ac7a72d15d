"""Identity: no weight at all; what comes in goes out.

    y = x

Values and projections at the identity for all of training are what is left of them in the simplified attention block.

    He & Hofmann 2024, arXiv:2311.01906, Sec. 4.2.

Dimension key: D width, of the input and of the output.
"""

from ablate.components.declare import Cost, Sizes, component, implements
from ablate.errors import InputError


@component("identity", slots=("weight",), source="He & Hofmann 2024, arXiv:2311.01906", version=1)
class Config:
    """Nothing to choose; the two widths must be the same."""

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        """Nothing; InputError where the widths differ."""
        if d_in != d_out:
            raise InputError(
                f"identity: it stands where a width of {d_in} becomes one of {d_out}\n"
                "  = the identity keeps a width; choose another weight there"
            )
        return Cost()

    def equation(self, x: str, w: str) -> str:
        """x."""
        return x


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Identity(nn.Module):
    """The input, as it is."""

    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        config.cost(sizes, d_in, d_out)

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        """[..., D] -> [..., D]."""
        return x
