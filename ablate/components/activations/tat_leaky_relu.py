"""TAT of leaky ReLU: the slope of negative inputs that lets a deep network keep angles apart.

    y = output_scale * (x if x > 0 else s * x)        output_scale = √(2 / (1 + s²)), so that Q(q) = q

The slope s is solved from what the network then does to orthogonal inputs: their correlation becomes `eta` η,

    C(c) = ((1-s)² (√(1-c²) + (π - acos c) c) / π + 2 s c) / (1 + s²)        C_L(0) = η

The network is viewed as an MLP: `layers` L of the activation, each in a residual α x + √(1 - α²) f(x) where `skip` α
is not 0; attention is left out. Shallow networks cannot have a large η: 12 layers of ReLU, s = 0, have 0.897.

    Zhang et al. 2022, arXiv:2203.08120; in transformers, with η = 0.9: He et al. 2023, arXiv:2302.10322, App. H.1.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, arithmetic, component, implements, number
from ablate.signal.leaky_relu_shaping import ShapedLeakyReLU, leaky_by_correlation
from ablate.signal.subnetworks import Stack


@component("tat_leaky_relu", slots=("activation",), source="Zhang et al. 2022, arXiv:2203.08120", shorthand="eta")
class Config:
    """`eta` η is the network's C(0), `skip` α, `layers` L."""

    eta: float = number(above=0.0, below=1.0)
    skip: float = arithmetic()
    layers: float = arithmetic()
    kinks = (0.0,)

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
        return df * x, df, np.zeros_like(x)

    def shaped(self) -> ShapedLeakyReLU:
        """The slope and the output map, solved once a process; InputError where there are none."""
        return leaky_by_correlation(self.eta, Stack(self.layers, self.skip))


from ablate.kernels.shaped_activation import ShapedLeaky


@implements(Config)
class TATLeakyReLU(ShapedLeaky):
    """The leaky ReLU and its output map."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config.shaped())
