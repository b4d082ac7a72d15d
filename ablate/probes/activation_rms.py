"""Activation RMS: the size of the activations.

sqrt(m2(X)) = sqrt(mean_αj X_αj²)

He et al. 2024, Section 4, arXiv:2405.19279
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe


@probe("activation_rms", reads="stream", sites=True, source="He et al. 2024, Section 4, arXiv:2405.19279", version=1)
class ActivationRms:
    activation_rms = metric(
        "root mean square of the activations over the tokens of the batch jointly and the width",
        "He et al. 2024, Section 4, arXiv:2405.19279",
        better="none",
    )


from jaxtyping import Float
from torch import Tensor


@implements(ActivationRms)
def activation_rms(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    return {"activation_rms": x.square().mean().sqrt()}
