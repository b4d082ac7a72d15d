"""Kurtosis of neuron RMS: are a few neurons much larger than the rest?

    s_j = sqrt(mean_α X_αj²)        Kurt(X) = mean_j s_j⁴ / (mean_j s_j²)²        X not centred

1 if all neurons are of one size, d if all but one of the d neurons are zero; NaN if X is zero. Elsewhere this number is
also reported minus 1, for centred activations, or with n - 1 for n; not here.

    He et al. 2024, Eq. 1, arXiv:2405.19279
"""

from __future__ import annotations

from ablate.probes.declare import Peak, implements, metric, probe


@probe("kurtosis", reads="stream", sites=True, source="He et al. 2024, Eq. 1, arXiv:2405.19279", version=1)
class Kurtosis:
    kurtosis = metric(
        "mean_j s_j^4 / (mean_j s_j^2)^2 with s_j the root mean square of neuron j over the tokens of the batch "
        "jointly, not centred; 1 at least, the width at most",
        "He et al. 2024, Eq. 1, arXiv:2405.19279",
        peak=Peak(
            "largest kurtosis of neuron RMS (He et al. 2024, Eq. 1) over the inputs of blocks and head, and over "
            "evaluations; read on the evaluation windows",
            "arXiv:2405.19279, Table 3",
        ),
        peak_at={
            "behind_norms": Peak(
                "largest kurtosis of neuron RMS (He et al. 2024, Eq. 1) over what each attention and MLP is given, "
                "behind its norm where it has one, and over evaluations; read on the evaluation windows",
                "arXiv:2405.19279, App. G (Languini)",
            )
        },
    )


from jaxtyping import Float
from torch import Tensor


@implements(Kurtosis)
def kurtosis(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    mean_squares = x.square().mean(0)  # s_j²
    return {"kurtosis": mean_squares.square().mean() / mean_squares.mean().square()}
