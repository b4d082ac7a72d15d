"""DKS of leaky ReLU: the slope of negative inputs is solved for the largest slope C'(1) of a deep network.

    y = output_scale * (φ(x + input_shift) + output_shift)        φ(x) = x if x > 0 else s * x

The slope s solves these conditions on the maps of mean square and correlation (`components/solved.py`, with ρ and
`network`):

    Q(1) = 1    Q'(1) = ρ    C(0) = 0    C'(1) = ψ        with ρ = 1: 1/ψ = 1 - (1-s)² / (π (1+s²)), input_shift = 0

ψ is such that the network's largest C'(1) is ζ; skipless: ζ^(1/L). An input_scale would only act like output_scale.
With ρ other than 1 the input is shifted, up where ρ is below 1, by the least that gives it.

    Martens et al. 2021, arXiv:2110.01765.
"""

from ablate.block.catalogue import STACK
from ablate.block.network import OwnNetwork
from ablate.components.declare import Sizes, arithmetic, component, implements, network, number
from ablate.components.solved import LeakyReLUBeforeMap, network_of
from ablate.signal.network_shaping import MOST_LAYERS, ShapedLeakyReLU, leaky_by_slope


@component(
    "dks_leaky_relu",
    slots=("activation",),
    source="Martens et al. 2021, arXiv:2110.01765",
    shorthand="zeta",
    added={"q_slope": 1.0, "network": STACK},
    version=1,
)
class Config(LeakyReLUBeforeMap):
    """`zeta` ζ is the network's largest slope C'(1), `q_slope` its Q'(1); `skip` α and `layers` L of a `stack`."""

    zeta: float = number(above=1.0)
    skip: float = arithmetic(at_least=0.0, at_most=1.0)
    layers: float = arithmetic(at_least=1.0, at_most=MOST_LAYERS, whole=True)
    q_slope: float = number(above=0.0)
    network: OwnNetwork | None = network(skip="0", layers="depth")

    def shaped(self) -> ShapedLeakyReLU:
        return leaky_by_slope(self.zeta, network_of(self), self.q_slope)


from ablate.kernels.prescribed import ShapedLeaky


@implements(Config)
class DKSLeakyReLU(ShapedLeaky):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config.shaped())
