"""Size of the gradient of the stream: does it grow or vanish on its way back through the layers?

    sqrt(m2(G)) = sqrt(mean_αj G_αj²)        G = ∂L/∂X

X is the input of a layer, and the output of the last one (at the address `layers.end`), in front of a final norm; G is
the whole gradient of the loss there, before clipping. The numbers to compare are ratios, such as that at `layers.1`
over that at the end, which is what a forecast gives: they do not depend on the size of the loss.

    Kedia et al. 2024, Fig. 2 and Table 3, arXiv:2403.09635
"""

from __future__ import annotations

from typing import Final

from ablate.probes.declare import implements, metric, probe

SOURCE: Final = "Kedia et al. 2024, Fig. 2 and Table 3, arXiv:2403.09635"


@probe("stream_gradient", reads="layer_gradients", source=SOURCE, version=1)
class StreamGradient:
    stream_gradient = metric(
        "root mean square, over the tokens of the batch jointly and the width, of the gradient of the batch's mean "
        "loss, with all that is added to it and before clipping, with respect to the input of a layer, and to what "
        "leaves the last one (layers.end)",
        SOURCE,
        better="none",
    )


from jaxtyping import Float
from torch import Tensor


@implements(StreamGradient)
def stream_gradient(gradient: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    return {"stream_gradient": gradient.square().mean().sqrt()}
