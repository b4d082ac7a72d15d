"""Token correlation as the code released with the paper computes it.

    X' = X - mean_j X        F = X' / (sqrt(mean X'²) + 1e-8)        c_αβ = <f_α, f_β> / d

Mean and root mean square of c_αβ off the diagonal, over all tokens of the batch jointly: also over pairs from different
sequences. `token_correlation` is the same without the centring, which takes what all neurons share out of each token.

    He & Hofmann 2024, arXiv:2311.01906, and He et al. 2024, arXiv:2405.19279: `compute_loss` of their released code
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SOURCE = "released code of arXiv:2311.01906 and arXiv:2405.19279, compute_loss"


@probe("token_correlation_as_released", reads="stream", source=SOURCE, version=1)
class TokenCorrelationAsReleased:
    token_correlation_mean_as_released = metric(
        "mean of <x_a, x_b> / d over all pairs of different tokens of the batch jointly, with x centred over the "
        "width and divided by its root mean square plus 1e-8",
        SOURCE,
    )
    token_correlation_rms_as_released = metric(
        "root mean square of <x_a, x_b> / d over all pairs of different tokens of the batch jointly, with x "
        "centred over the width and divided by its root mean square plus 1e-8",
        SOURCE,
    )


from jaxtyping import Float
from torch import Tensor

from ablate.probes.token_correlation import over_pairs

EPS = 1e-8


@implements(TokenCorrelationAsReleased)
def token_correlation_as_released(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    """NaN for a single token."""
    centred = x - x.mean(-1, keepdim=True)
    mean, rms = over_pairs(centred / (centred.square().mean().sqrt() + EPS))
    return {"token_correlation_mean_as_released": mean, "token_correlation_rms_as_released": rms}
