"""Rescaled: an activation times the number that keeps the mean square of a standard normal input at 1.

    y = act(x) / sqrt(E[act(z)^2])        z standard normal

It leaves correlations as the activation does. At the start it equals scaling the weight behind the activation instead;
in training Adam then moves that weight by less, relative to its size.

    He et al. 2023, arXiv:2302.10322, App. H.1 (σ of the weight behind an activation that is not transformed).
"""

from ablate.block.sizes import PartMaker
from ablate.components.declare import Sizes, component, implements, part
from ablate.components.solved import BetweenMaps
from ablate.signal.network_shaping import AffineMaps


@component(
    "rescaled",
    slots=("activation",),
    source="He et al. 2023, arXiv:2302.10322, App. H.1",
    shorthand="activation",
    version=1,
)
class Config(BetweenMaps):
    """`activation` is what is rescaled."""

    activation: PartMaker = part("activation")

    def affine(self) -> AffineMaps:
        from ablate.signal.kernel_maps import rescale

        inner = self.activation.config
        return rescale(inner, inner.spec.name)

    def equation(self, x: str) -> str:
        return self.affine().after(self.activation(x))


from ablate.kernels.prescribed import ShapedActivation


@implements(Config)
class Rescaled(ShapedActivation):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config.affine(), config.activation())
