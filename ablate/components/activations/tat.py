"""TAT: a smooth activation between affine maps that keep a deep network's correlations near those of a linear one.

    y = output_scale * (act(input_scale * x + input_shift) + output_shift)

The four numbers solve these conditions on the maps of mean square and correlation (`components/solved.py`, with ρ and
`network`):

    Q(1) = 1    Q'(1) = ρ    C'(1) = 1    C''(1) = κ        κ so that the network's largest C''(1) is τ; skipless: τ / L

There are two kinds of solutions. The steep one, with a slope input_scale * output_scale of 2 or more (for an activation
whose own slope is below 1 everywhere: the slope of the whole), is rejected.

    Zhang et al. 2022, arXiv:2203.08120.
"""

from ablate.block.catalogue import STACK
from ablate.block.network import OwnNetwork
from ablate.block.sizes import PartMaker
from ablate.components.declare import Sizes, arithmetic, component, implements, network, number, part
from ablate.components.solved import BetweenMaps, network_of
from ablate.signal.network_shaping import MOST_LAYERS, AffineMaps


@component(
    "tat",
    slots=("activation",),
    source="Zhang et al. 2022, arXiv:2203.08120",
    shorthand="activation",
    added={"q_slope": 1.0, "network": STACK},
    version=1,
)
class Config(BetweenMaps):
    """`tau` τ is the network's largest curvature C''(1), `q_slope` its Q'(1); `skip` α and `layers` L of a `stack`."""

    activation: PartMaker = part("activation")
    tau: float = number(above=0.0)
    skip: float = arithmetic(at_least=0.0, at_most=1.0)
    layers: float = arithmetic(at_least=1.0, at_most=MOST_LAYERS, whole=True)
    q_slope: float = number(above=0.0)
    network: OwnNetwork | None = network(skip="0", layers="depth")

    def affine(self) -> AffineMaps:
        from ablate.signal.kernel_maps import shape_by_curvature

        inner = self.activation.config
        return shape_by_curvature(inner, inner.spec.name, self.tau, network_of(self), self.q_slope)


from ablate.kernels.prescribed import ShapedActivation


@implements(Config)
class TAT(ShapedActivation):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config.affine(), config.activation())
