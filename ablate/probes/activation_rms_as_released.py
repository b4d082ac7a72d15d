"""Activation RMS as the code released with the paper computes it: its `x_rms`.

    X'_αj = X_αj - mean_i X_αi        x_rms = sqrt(mean_αj X'_αj²) + 1e-8

Centred over the width, and never below 1e-8; `activation_rms` does neither.

    He & Hofmann 2024, arXiv:2311.01906, and He et al. 2024, arXiv:2405.19279: `compute_loss` of their released code
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SOURCE = "released code of arXiv:2311.01906 and arXiv:2405.19279, compute_loss"


@probe(
    "activation_rms_as_released",
    reads="stream",
    source=SOURCE,
    version=1,
)
class ActivationRmsAsReleased:
    activation_rms_as_released = metric(
        "root mean square of the activations over the tokens of the batch jointly and the width, with x centred "
        "over the width, plus 1e-8 (x_rms)",
        SOURCE,
        better="none",
    )


from jaxtyping import Float
from torch import Tensor

EPS = 1e-8


@implements(ActivationRmsAsReleased)
def activation_rms_as_released(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    centred = x - x.mean(-1, keepdim=True)
    return {"activation_rms_as_released": centred.square().mean().sqrt() + EPS}
