"""Activations solved from a network: the cost, equation and derivatives that DKS, TAT and their leaky ReLUs share.

Their numbers follow from the layer's maps q -> Q(q) and c -> C(c) of the mean square and the correlation of its inputs
(`signal/kernel_maps.py`, `signal/network_shaping.py`). The network is treated as an MLP; attention, norms, gates and
routers are left out:

    network: stack    `layers` L such activations, each in a residual α x + √(1 - α²) f(x) where `skip` α is not 0
    network: block    every shaped activation of every layer of the model, in its residuals with their own skips and
                      gains (trained ones as they start, each sum as of equal mean squares): see `block/network.py`

`q_slope` is Q'(1) of the whole network, that of one activation is ρ: skipless, ρ = q_slope^(1/L). The papers have 1.
Each component declares its own fields, and how it is solved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from ablate.block.network import OwnNetwork, layers_in
from ablate.block.sizes import Cost, PartMaker, Sizes
from ablate.errors import InputError
from ablate.signal.network_shaping import AffineMaps, Network, ShapedLeakyReLU, residual_stack

if TYPE_CHECKING:
    from ablate.signal.propagation import Signal


def network_of(config: Solved) -> Network:
    """Raise InputError for a stack's numbers beside `network: block`."""
    own = config.network
    if own is None:
        return residual_stack(config.layers, config.skip)
    if config.skip != 0 or config.layers != own.depth:
        raise InputError(
            f"network is block, whose layers and skips are its own, but a stack is given with layers {config.layers:g} "
            f"and skip {config.skip:g}\n"
            "  = leave layers and skip out, or write network: stack"
        )
    layers = layers_in(own.elements)
    return Network(own.elements, f"the block's own {layers} nonlinear layer{'s' if layers > 1 else ''}")


class Solved(Protocol):
    """The fields of the network that an activation is solved for."""

    @property
    def layers(self) -> float:
        """L of a stack."""

    @property
    def skip(self) -> float:
        """α of a stack."""

    @property
    def network(self) -> OwnNetwork | None:
        """The network of the model's blocks, or None for a stack."""


class BetweenMaps(ABC):
    """An activation between affine maps of its input and output."""

    activation: PartMaker

    @abstractmethod
    def affine(self) -> AffineMaps:
        """Solve the maps, once per process; InputError where there are none."""

    def cost(self, sizes: Sizes) -> Cost:
        """Raise InputError where no maps around the inner activation meet the conditions."""
        self.affine()
        cost: Cost = self.activation()
        return cost

    def equation(self, x: str) -> str:
        affine = self.affine()
        return affine.after(self.activation(affine.before(x)))

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        return x.activated(self)

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        from ablate.signal.kernel_maps import Shaped

        return Shaped(self.activation.config, self.affine()).curve(x)

    @property
    def kinks(self) -> tuple[float, ...]:
        """The inputs at which f' jumps."""
        from ablate.signal.kernel_maps import Shaped

        return Shaped(self.activation.config, self.affine()).kinks

    @property
    def bends(self) -> tuple[float, ...]:
        """The inputs at which f'' jumps where f' does not."""
        from ablate.signal.kernel_maps import Shaped

        return Shaped(self.activation.config, self.affine()).bends


class LeakyReLUBeforeMap(ABC):
    """A leaky ReLU with a solved slope, between a shift of its input, mostly 0, and an affine map of its output."""

    @abstractmethod
    def shaped(self) -> ShapedLeakyReLU:
        """Solve the slope and the maps, once per process; InputError where there are none."""

    def cost(self, sizes: Sizes) -> Cost:
        """Raise InputError where no slope reaches the target."""
        self.shaped()
        return Cost()

    def equation(self, x: str) -> str:
        shaped = self.shaped()
        return shaped.affine.after(f"LeakyReLU({shaped.affine.shifted(x)}; {shaped.slope:.4g})")

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        return x.activated(self)

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x; f' at its jump is the left derivative, which f'' omits."""
        import numpy as np

        slope, affine = self.shaped().slope, self.shaped().affine
        inner = x + affine.input_shift
        df = affine.output_scale * np.where(inner > 0, 1.0, slope)
        return df * inner + affine.output_scale * affine.output_shift, df, np.zeros_like(x)

    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0 - self.shaped().affine.input_shift,)
