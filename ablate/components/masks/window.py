"""Window: a query sees its own key and the nearest ones only, so that a layer reads no further than its window.

    query i sees key j where i - W < j ≤ i        |i - j| < W if the model is not causal

    Beltagy et al. 2020, arXiv:2004.05150, Sec. 3.1; causal as in Jiang et al. 2023, arXiv:2310.06825, Sec. 2.

Layers add up: after L of them a token depends on the L (W - 1) tokens before it.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ablate.block.arithmetic import parse
from ablate.components.declare import Cost, Node, Sizes, arithmetic, component, fixed, implements


@component("window", slots=("mask",), source="Beltagy et al. 2020, arXiv:2004.05150", shorthand="size", version=1)
class Config:
    """`size` is W, the keys that a query of a causal model sees, its own included: `64`, or `context/4`, rounded up."""

    leaks: ClassVar[bool] = False

    size: float = arithmetic(at_least=1.0, at_most=1e6)

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """The plain mask for a window as long as the context; else its size rounded up."""
        size = math.ceil(fixed(node["size"]) or 0)
        if size >= sizes.seq_len:
            return Node("causal" if sizes.causal else "full")
        return node.replace({"size": parse(size)})

    def propagate(self, sizes: Sizes) -> Any:
        import numpy as np

        back = np.arange(sizes.seq_len)[:, None] - np.arange(sizes.seq_len)
        return (back < math.ceil(self.size)) & ((back >= 0) if sizes.causal else (back > -math.ceil(self.size)))

    def equation(self) -> str:
        return f"i - {math.ceil(self.size)} < j ≤ i"


from jaxtyping import Bool, Int
from torch import Tensor

from ablate.kernels.mask import Mask


@dataclass(frozen=True)
class WindowMask(Mask):
    """The keys nearer than `size`; of the past alone if `causal`."""

    size: int
    causal: bool = True

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        near = t - s < self.size
        return near & (s <= t if self.causal else s - t < self.size)


@implements(Config)
class Window:
    def __init__(self, config: Config, sizes: Sizes):
        self.mask = WindowMask(math.ceil(config.size), sizes.causal)
