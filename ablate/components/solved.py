"""What the Configs of activations share whose maps are solved from a whole network: cost, text and derivatives.

Methods alone: each component declares its fields, and says how it is solved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ablate.block.config_values import PartMaker
from ablate.block.cost import Cost
from ablate.block.sizes import Sizes
from ablate.signal.affine import Affine
from ablate.signal.leaky_relu_shaping import ShapedLeakyReLU


class BetweenMaps(ABC):
    """An activation between affine maps of its input and output."""

    activation: PartMaker

    @abstractmethod
    def affine(self) -> Affine:
        """The maps, solved once a process; InputError where there are none."""

    def cost(self, sizes: Sizes) -> Cost:
        """That of the activation inside; InputError where no maps around it meet the conditions."""
        self.affine()
        cost: Cost = self.activation()
        return cost

    def equation(self, x: str) -> str:
        """The activation of x between its maps, solved."""
        affine = self.affine()
        return affine.after(self.activation(affine.before(x)))

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        from ablate.signal.kernel_maps import Shaped

        return Shaped(self.activation.config, self.affine()).curve(x)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where f' jumps."""
        from ablate.signal.kernel_maps import Shaped

        return Shaped(self.activation.config, self.affine()).kinks


class LeakyReLUBeforeMap(ABC):
    """A leaky ReLU of a solved slope, and an affine map of its output."""

    kinks = (0.0,)

    @abstractmethod
    def shaped(self) -> ShapedLeakyReLU:
        """The slope and the output map, solved once a process; InputError where there are none."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products; InputError where no slope reaches the target."""
        self.shaped()
        return Cost()

    def equation(self, x: str) -> str:
        """The leaky ReLU of x and its map, solved."""
        shaped = self.shaped()
        return shaped.affine.after(f"LeakyReLU({x}; {shaped.slope:.4g})")

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x; f' at 0 is that from the left, and f'' leaves out its jump there."""
        import numpy as np

        slope, affine = self.shaped().slope, self.shaped().affine
        df = affine.output_scale * np.where(x > 0, 1.0, slope)
        return df * x + affine.output_scale * affine.output_shift, df, np.zeros_like(x)
