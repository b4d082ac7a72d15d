"""DKS: an activation between affine maps that let a deep network of it, skipless too, keep angles apart.

    y = output_scale * (act(input_scale * x + input_shift) + output_shift)

The four numbers are solved from what the layer then does to the mean square q and to the correlation c of its inputs
(`signal/kernel_maps.py`):

    Q(1) = 1    Q'(1) = 1    C(0) = 0    C'(1) = ψ        ψ so that the network's largest C'(1) is ζ; skipless: ζ^(1/L)

The network is viewed as an MLP: `layers` L of the activation, each in a residual α x + √(1 - α²) f(x) where `skip` α
is not 0; attention is left out. ReLU and leaky ReLU, which cannot tell input_scale from output_scale, have input_shift
1 or -1 and no condition on Q'.

    Martens et al. 2021, arXiv:2110.01765; in transformers, with ζ = 5: He et al. 2023, arXiv:2302.10322, App. H.1.

It acts elementwise, on any shape.
"""

from ablate.block.config_values import PartMaker
from ablate.components.declare import Sizes, arithmetic, component, implements, number, part
from ablate.components.solved import BetweenMaps
from ablate.signal.affine import Affine
from ablate.signal.subnetworks import MOST_LAYERS, ResidualStack


@component(
    "dks", slots=("activation",), source="Martens et al. 2021, arXiv:2110.01765", shorthand="activation", version=1
)
class Config(BetweenMaps):
    """`zeta` ζ is the network's largest slope C'(1), `skip` α, `layers` L."""

    activation: PartMaker = part("activation")
    zeta: float = number(above=1.0)
    skip: float = arithmetic(at_least=0.0, at_most=1.0)
    layers: float = arithmetic(at_least=1.0, at_most=MOST_LAYERS, whole=True)

    def affine(self) -> Affine:
        """The maps, solved once a process; InputError where there are none."""
        from ablate.signal.shaping import shape_by_slope

        inner = self.activation.config
        return shape_by_slope(inner, inner.spec.name, self.zeta, ResidualStack(self.layers, self.skip))


from ablate.kernels.shaped_activation import ShapedActivation


@implements(Config)
class DKS(ShapedActivation):
    """The activation between two affine maps."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config.affine(), config.activation())
