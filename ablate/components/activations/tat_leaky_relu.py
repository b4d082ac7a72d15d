"""TAT of leaky ReLU: the slope of negative inputs is solved so that a deep network keeps inputs distinguishable.

    y = output_scale * (x if x > 0 else s * x)        output_scale = √(2 / (1 + s²)), so that Q(q) = q

The slope s is solved so that the network maps orthogonal inputs to a correlation of `eta` η (`components/solved.py`):

    C(c) = ((1-s)² (√(1-c²) + (π - acos c) c) / π + 2 s c) / (1 + s²)        C_L(0) = η

Shallow networks cannot reach a large η: 12 layers of ReLU, s = 0, give 0.897.

    Zhang et al. 2022, arXiv:2203.08120; in transformers, with η = 0.9: He et al. 2023, arXiv:2302.10322, App. H.1.
"""

from ablate.block.catalogue import STACK
from ablate.block.network import OwnNetwork
from ablate.components.declare import Sizes, arithmetic, component, implements, network, number
from ablate.components.solved import LeakyReLUBeforeMap, network_of
from ablate.signal.network_shaping import MOST_LAYERS, ShapedLeakyReLU, leaky_by_correlation


@component(
    "tat_leaky_relu",
    slots=("activation",),
    source="Zhang et al. 2022, arXiv:2203.08120",
    shorthand="eta",
    added={"network": STACK},
    version=1,
)
class Config(LeakyReLUBeforeMap):
    """`eta` η is the network's C(0), `skip` α and `layers` L of a `stack`."""

    eta: float = number(above=0.0, below=1.0)
    skip: float = arithmetic(at_least=0.0, at_most=1.0)
    layers: float = arithmetic(at_least=1.0, at_most=MOST_LAYERS, whole=True)
    network: OwnNetwork | None = network(skip="0", layers="depth")

    def shaped(self) -> ShapedLeakyReLU:
        return leaky_by_correlation(self.eta, network_of(self))


from ablate.kernels.prescribed import ShapedLeaky


@implements(Config)
class TATLeakyReLU(ShapedLeaky):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config.shaped())
