"""By layer: one weight in the first layer, another in all others.

    y = first(x) in layer 1        y = others(x) in every other

The simplified attention block keeps the values of the first layer alone: `value: {by_layer: {first: {reparameterised:
…}, others: identity}}`. The layer's own weight has the random numbers that it would have without `by_layer`.

    He & Hofmann 2024, arXiv:2311.01906, Sec. 4.2 (footnote 6) and Fig. 24.
"""

from ablate.components.declare import Cost, Maker, Node, Signal, Sizes, Value, component, implements, part
from ablate.errors import InputError


@component("by_layer", slots=("weight",), source="He & Hofmann 2024, arXiv:2311.01906", version=1)
class Config:
    """`first` is the weight of layer 1, `others` that of every other."""

    first: Maker = part("weight")
    others: Maker = part("weight")

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Value:
        return node["first" if sizes.layer == 1 else "others"]

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        cost: Cost = self.chosen(sizes)(d_in, d_out)
        return cost

    def chosen(self, sizes: Sizes) -> Maker:
        """Raise InputError outside the layers."""
        if sizes.layer is None:
            raise InputError("by_layer is used outside the layers\n  = give a single weight there")
        return self.first if sizes.layer == 1 else self.others

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        out: Signal = self.chosen(sizes)(x, d_in, d_out)
        return out

    def equation(self, x: str, w: str) -> str:
        first, others = self.first(x, w), self.others(x, w)
        return first if first == others else f"({first} in layer 1, else {others})"


from typing import Any


@implements(Config)
class ByLayer:
    """A callable like a module class that makes the module of the layer's own weight."""

    def __new__(cls, config: Config, sizes: Sizes, d_in: int, d_out: int) -> Any:
        return config.chosen(sizes)(d_in, d_out)
