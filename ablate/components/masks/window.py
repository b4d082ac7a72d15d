"""Window: a query sees its own key and the nearest ones only, so that a layer reads no further than its window.

    query i sees key j where i - W < j ≤ i        |i - j| < W if the model is not causal

    Beltagy et al. 2020, arXiv:2004.05150, Sec. 3.1; causal as in Jiang et al. 2023, arXiv:2310.06825, Sec. 2.

Layers add up: after L of them a token depends on the L (W - 1) tokens before it.
"""

from dataclasses import dataclass
from typing import ClassVar

from ablate.components.declare import Cost, Sizes, arithmetic, component, implements


@component("window", slots=("mask",), source="Beltagy et al. 2020, arXiv:2004.05150", shorthand="size", version=1)
class Config:
    """`size` is W, the keys that a query sees in a causal model, its own among them; such as `context/4`."""

    leaks: ClassVar[bool] = False

    size: float = arithmetic(at_least=1.0, at_most=1e6, whole=True)

    def cost(self, sizes: Sizes) -> Cost:
        """Return the zero cost: nothing to train, no products."""
        return Cost()

    def equation(self) -> str:
        """Return when query i sees key j, in a causal model."""
        return f"i - {self.size:.0f} < j ≤ i"


from jaxtyping import Bool, Int
from torch import Tensor

from ablate.kernels.mask import Mask


@dataclass(frozen=True)
class WindowMask(Mask):
    """The keys nearer than `size`; of the past alone if `causal`."""

    size: int
    causal: bool = True

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        """Return t - W < s ≤ t, or |t - s| < W."""
        near = t - s < self.size
        return near & (s <= t if self.causal else s - t < self.size)


@implements(Config)
class Window:
    """The mask of every place."""

    def __init__(self, config: Config, sizes: Sizes):
        self.mask = WindowMask(int(config.size), sizes.causal)
