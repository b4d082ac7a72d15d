"""First layer: parts that exist in layer 1 only.

y = inside(x) in layer 1        y = x in every other layer, where the parts are not built

He & Hofmann 2024, arXiv:2311.01906, and He et al. 2024, arXiv:2405.19279: their released code, `norm_type: none`,
which keeps a LayerNorm in its first block: `residual: [first_layer: [layer_norm], attention]`.
"""

from ablate.components.declare import Cost, Maker, Node, Signal, Sizes, Value, component, implements, sequence


@component(
    "first_layer",
    slots=("part",),
    modifier=True,
    source="He & Hofmann 2024, arXiv:2311.01906",
    shorthand="inside",
    version=1,
)
class Config:
    """`inside` are the parts of the first layer."""

    inside: Maker = sequence()

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Value:
        return node["inside"] if sizes.layer == 1 else None

    def cost(self, sizes: Sizes) -> Cost:
        cost: Cost = self.inside() if sizes.layer == 1 else Cost()
        return cost

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        inside: Signal = self.inside(x) if sizes.layer == 1 else x
        return inside

    def equation(self, x: str) -> str:
        return f"({self.inside(x)} in layer 1, else {x})"


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class FirstLayer(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        # Not a module: its parts are registered beside this one, at their own addresses.
        self.inside = config.inside() if sizes.layer == 1 else None

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        if self.inside is None:
            return x
        y: Tensor = self.inside(x)
        return y
