"""Feature correlation as the code released with the paper computes it: its `feat_corr_rms`.

    X' = X - mean_j X        F = X' / (sqrt(mean X'²) + 1e-8)        sqrt(mean_{i≠j} ((FᵀF)_ij / n)²)

`feature_correlation_rms` of the probe `gram` is the same without the centring. NaN at width 1.

    He & Hofmann 2024, arXiv:2311.01906, and He et al. 2024, arXiv:2405.19279: `compute_loss` of their released code
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SOURCE = "released code of arXiv:2311.01906 and arXiv:2405.19279, compute_loss"


@probe(
    "gram_as_released",
    reads="stream",
    source=SOURCE,
    version=1,
)
class GramAsReleased:
    feature_correlation_rms_as_released = metric(
        "root mean square of mean_a x_ai x_aj, over the tokens of the batch jointly, over all pairs of different "
        "neurons, with x centred over the width and divided by its root mean square plus 1e-8 (feat_corr_rms)",
        SOURCE,
        better="none",
    )


from jaxtyping import Float
from torch import Tensor

from ablate.probes.gram import feature_correlation

EPS = 1e-8


@implements(GramAsReleased)
def gram_as_released(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean().sqrt() + EPS)
    return {"feature_correlation_rms_as_released": feature_correlation(scaled)}
