"""Kurtosis as the code released with the paper computes it, which is not its Eq. 1.

    X' = X - mean_j X        F = X' / (sqrt(mean X'²) + 1e-8)        var_j(mean_α F_αj²)        unbiased: over d - 1

Centred over the width, minus 1, and d/(d - 1) times as large: up to the 1e-8 it is (Kurt(X') - 1)·d/(d - 1), with
Kurt the probe `kurtosis`. 0 if all neurons are of one size.

    He & Hofmann 2024, arXiv:2311.01906, and He et al. 2024, arXiv:2405.19279: `compute_loss` of their released code
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SOURCE = "released code of arXiv:2311.01906 and arXiv:2405.19279, compute_loss"


@probe(
    "kurtosis_as_released",
    reads="stream",
    source=SOURCE,
    version=1,
)
class KurtosisAsReleased:
    kurtosis_as_released = metric(
        "unbiased variance over neurons of mean_a x_aj^2 over the tokens of the batch jointly, with x centred over "
        "the width and divided by its root mean square plus 1e-8: (kurtosis of the centred x, less 1) d / (d - 1)",
        SOURCE,
    )


from jaxtyping import Float
from torch import Tensor

EPS = 1e-8


@implements(KurtosisAsReleased)
def kurtosis_as_released(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    """NaN at width 1."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean().sqrt() + EPS)
    return {"kurtosis_as_released": scaled.square().mean(0).var(correction=1)}
