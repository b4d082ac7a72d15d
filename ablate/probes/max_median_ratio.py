"""Max-median ratio: how far a token's largest activation stands above its typical one.

    MMR(X) = Aggregate_α ( max_j |X_αj| / median_j |X_αj| )

Aggregated over tokens by mean (`max_median_ratio`), median, or max (as in the paper's Fig. 15). The median of an even
number of values is the mean of the middle two (`torch.median` takes the lower). 1 at least; infinite when half a
token's activations are zero and one is not, NaN when a token is zero.

    He et al. 2024, Eq. 5, arXiv:2405.19279
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe


@probe("max_median_ratio", reads="stream", sites=True, source="He et al. 2024, Eq. 5, arXiv:2405.19279", version=1)
class MaxMedianRatio:
    max_median_ratio = metric(
        "mean over the tokens of the batch of each token's max_j |x_j| / median_j |x_j|; "
        "the median of an even width is the mean of the middle two",
        "He et al. 2024, Eq. 5, arXiv:2405.19279",
    )
    max_median_ratio_median = metric(
        "median over the tokens of the batch of each token's max_j |x_j| / median_j |x_j|",
        "He et al. 2024, Eq. 5, arXiv:2405.19279",
    )
    max_median_ratio_max = metric(
        "largest over the tokens of the batch of each token's max_j |x_j| / median_j |x_j|",
        "He et al. 2024, Eq. 5 and Fig. 15, arXiv:2405.19279",
    )


from jaxtyping import Float
from torch import Tensor


@implements(MaxMedianRatio)
def max_median_ratio(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    ascending = x.abs().sort(dim=-1).values
    d = x.shape[-1]
    median = (ascending[:, (d - 1) // 2] + ascending[:, d // 2]) / 2
    ratios = (ascending[:, -1] / median).sort().values  # a NaN ratio is sorted last, and makes all three NaN
    n = len(ratios)
    middle = (ratios[(n - 1) // 2] + ratios[n // 2]) / 2
    return {
        "max_median_ratio": ratios.mean(),
        "max_median_ratio_median": middle.where(~ratios[-1].isnan(), ratios[-1]),
        "max_median_ratio_max": ratios[-1],
    }
