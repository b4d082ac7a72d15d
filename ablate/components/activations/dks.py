"""DKS: an activation between affine maps, so that a deep network, even without skips, keeps inputs distinguishable.

    y = output_scale * (act(input_scale * x + input_shift) + output_shift)

The four numbers solve these conditions on the maps of mean square and correlation (`components/solved.py`, with ρ and
`network`):

    Q(1) = 1    Q'(1) = ρ    C(0) = 0    C'(1) = ψ        ψ so that the network's largest C'(1) is ζ; skipless: ζ^(1/L)

For ReLU and leaky ReLU input_scale only acts like output_scale: they have input_shift 1 or -1 and no condition on Q'.

    Martens et al. 2021, arXiv:2110.01765; in transformers, with ζ = 5: He et al. 2023, arXiv:2302.10322, App. H.1.
"""

from ablate.block.catalogue import STACK
from ablate.block.network import OwnNetwork
from ablate.block.sizes import PartMaker
from ablate.components.declare import Sizes, arithmetic, component, implements, network, number, part
from ablate.components.solved import BetweenMaps, network_of
from ablate.signal.network_shaping import MOST_LAYERS, AffineMaps


@component(
    "dks",
    slots=("activation",),
    source="Martens et al. 2021, arXiv:2110.01765",
    shorthand="activation",
    added={"q_slope": 1.0, "network": STACK},
    version=1,
)
class Config(BetweenMaps):
    """`zeta` ζ is the network's largest slope C'(1), `q_slope` its Q'(1); `skip` α and `layers` L of a `stack`."""

    activation: PartMaker = part("activation")
    zeta: float = number(above=1.0)
    skip: float = arithmetic(at_least=0.0, at_most=1.0)
    layers: float = arithmetic(at_least=1.0, at_most=MOST_LAYERS, whole=True)
    q_slope: float = number(above=0.0)
    network: OwnNetwork | None = network(skip="0", layers="depth")

    def affine(self) -> AffineMaps:
        from ablate.signal.kernel_maps import shape_by_slope

        inner = self.activation.config
        return shape_by_slope(inner, inner.spec.name, self.zeta, network_of(self), self.q_slope)


from ablate.kernels.prescribed import ShapedActivation


@implements(Config)
class DKS(ShapedActivation):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config.affine(), config.activation())
