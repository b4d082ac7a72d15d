"""The other terms of the Gram matrices in Eq. 4, which balance kurtosis against token correlation.

    n² d · Kurt + Σ_{i≠j} (Σ_F)²_ij  =  Σ_α (Σ_I)²_αα + Σ_{α≠β} (Σ_I)²_αβ        at m2(X) = 1

Here Σ_I = X Xᵀ [n, n] and Σ_F = Xᵀ X [d, d]. Divided by n² d², with F = `feature_correlation_rms`,
N = `token_norm_kurtosis` and C = `token_correlation_rms`:

    Kurt / d + (1 - 1/d) F²  =  N / n + (1 - 1/n) C²

    F² = mean_{i≠j} ((Σ_F)_ij / n)²        N = mean_α (|x_α|² / d)²

N is to tokens what kurtosis is to neurons: 1 if all tokens have the same norm, n if all but one token are zero.

    He et al. 2024, Eq. 4, arXiv:2405.19279
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SOURCE = "He et al. 2024, Eq. 4, arXiv:2405.19279"


@probe("gram", reads="stream", sites=True, source=SOURCE, version=1)
class Gram:
    feature_correlation_rms = metric(
        "root mean square of mean_a x_ai x_aj, over the tokens of the batch jointly, over all pairs of different "
        "neurons, at mean square activation 1",
        SOURCE,
        better="none",
    )
    token_norm_kurtosis = metric(
        "mean over the tokens of the batch jointly of (|x|^2 / d)^2 at mean square activation 1; "
        "1 when all tokens have one norm",
        SOURCE,
        better="none",
    )


from jaxtyping import Float
from torch import Tensor


@implements(Gram)
def gram(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    """Compute the terms of Eq. 4 that no other probe gives; the first is NaN at width 1.

    Σ_F is built explicitly even if Σ_I is smaller: a term derived from Eq. 4 could not confirm Eq. 4.
    """
    x = x / x.square().mean().sqrt()
    return {
        "feature_correlation_rms": feature_correlation(x),
        "token_norm_kurtosis": x.square().mean(-1).square().mean(),
    }


def feature_correlation(x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """The RMS of mean_α x_αi x_αj over all pairs of different neurons; NaN at width 1."""
    n, d = x.shape
    feature_gram = x.mT @ x / n
    off_diagonal_squares = feature_gram.fill_diagonal_(0).square().sum()
    return (off_diagonal_squares / x.new_tensor(d * (d - 1))).sqrt()
