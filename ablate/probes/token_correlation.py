"""Token correlation: have the tokens become alike (rank collapse)?

    c_αβ = (Σ_I)_αβ / d = <x_α, x_β> / d        with X first divided by sqrt(m2(X)), so that mean_α c_αα = 1

`token_correlation_mean` and `token_correlation_rms` are the mean and the root mean square of the entries off the
diagonal, over all tokens of the batch jointly. They are inner products, not cosines: larger tokens count
for more. Both are 1 if all tokens are the same; the mean of orthogonal tokens is 0; NaN for a single token.

No n × n matrix is built if there are more tokens than neurons, with Σ_I = X Xᵀ [n, n], Σ_F = Xᵀ X [d, d]:

    Σ_αβ (Σ_I)_αβ = |Σ_α x_α|²        Σ_αβ (Σ_I)²_αβ = Tr(Σ_I Σ_I) = Tr(Σ_F Σ_F) = Σ_ij (Σ_F)²_ij

    He et al. 2024, Section 4, Eq. 4 and footnote 3, arXiv:2405.19279
"""

from __future__ import annotations

from ablate.probes.declare import Peak, implements, metric, probe

SOURCE = "He et al. 2024, Section 4 and footnote 3, arXiv:2405.19279"


@probe("token_correlation", reads="stream", sites=True, source=SOURCE, version=1)
class TokenCorrelation:
    token_correlation_mean = metric(
        "mean of <x_a, x_b> / d over all pairs of different tokens of the batch jointly, at mean square activation 1",
        SOURCE,
    )
    token_correlation_rms = metric(
        "root mean square of <x_a, x_b> / d over all pairs of different tokens of the batch jointly, "
        "at mean square activation 1",
        SOURCE,
        peak=Peak(
            "largest RMS of input-wise correlations over the inputs of blocks and head, and over evaluations; over all "
            "tokens of a batch jointly; read on the evaluation windows",
            "arXiv:2405.19279, Table 3",
            name="token_correlation",
        ),
        at_most=1.0,
    )


from jaxtyping import Float
from torch import Tensor


@implements(TokenCorrelation)
def token_correlation(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    mean, rms = over_pairs(x / x.square().mean().sqrt())
    return {"token_correlation_mean": mean, "token_correlation_rms": rms}


def over_pairs(x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Mean and RMS of <x_α, x_β> / d over all pairs of different tokens; NaN for a single token."""
    n, d = x.shape
    squared_norms = x.square().sum(-1)  # the diagonal of Σ_I
    smaller_gram = x @ x.mT if n <= d else x.mT @ x
    off_diagonal = x.sum(0).square().sum() - squared_norms.sum()
    # Never below zero in exact arithmetic; in float64 the two sums may cancel to slightly less.
    off_diagonal_squares = (smaller_gram.square().sum() - squared_norms.square().sum()).clamp(min=0)
    pairs = x.new_tensor(n * (n - 1))
    return off_diagonal / (d * pairs), (off_diagonal_squares / pairs).sqrt() / d
