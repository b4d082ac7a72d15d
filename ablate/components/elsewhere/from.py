"""From: a value that stands earlier in the model, in place of what would be computed here.

    y = value at `of`        whatever x is; gradients reach the value where it was computed

`value: {from: layers.first.attention.value}` shares the values of the first layer with all others, `{from:
attention.key}` uses keys as values.

    Shared values: Zhou et al. 2024, Value Residual Learning, arXiv:2410.17897 (SVFormer); keys and values shared by
    neighbouring layers: Brandon et al. 2024, arXiv:2405.12981.
"""

from ablate.components.declare import Cost, Maker, Signal, Sizes, component, earlier, implements


@component("from", slots=("part", "weight"), modifier=True, source="Zhou et al. 2024", shorthand="of", version=1)
class Config:
    """`of` is the address of the value: of the width of the slot, or of the model's for a part."""

    of: Maker = earlier()

    def cost(self, sizes: Sizes, d_in: int | None = None, d_out: int | None = None) -> Cost:
        """Zero: the value is computed anyway."""
        cost: Cost = self.of(d_out or sizes.d_model)
        return cost

    def propagate(self, x: Signal, sizes: Sizes, d_in: int | None = None, d_out: int | None = None) -> Signal:
        y: Signal = self.of(d_out or sizes.d_model).added(x, 0.0, (1.0,))
        return y

    def equation(self, x: str, w: str = "") -> str:
        return f"{self.of()}"


from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class From(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, d_in: int | None = None, d_out: int | None = None):
        super().__init__()
        self.read: Callable[[], Tensor] = config.of(d_out or sizes.d_model)

    def forward(self, x: Float[Tensor, "B T I"]) -> Float[Tensor, "B T O"]:
        return self.read()
