"""Max-median ratios, for activations centred over the width.

    X'_αj = X_αj - mean_i X_αi        MMR(X') by mean, median and max over tokens, as the probe `max_median_ratio`

`max_median_ratio_as_released` also centres, but takes the lower of the middle two as the median.

    He et al. 2024, Eq. 5, centred as in footnote 1 and Fig. 13, arXiv:2405.19279
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SOURCE = "He et al. 2024, Eq. 5, centred as in Fig. 13, arXiv:2405.19279"
OF_EACH = "over the tokens of the batch of each token's max_j |x_j| / median_j |x_j|, centred over the width first"


@probe("max_median_ratio_centred", reads="stream", source=SOURCE, version=1)
class MaxMedianRatioCentred:
    max_median_ratio_centred = metric(f"mean {OF_EACH}", SOURCE)
    max_median_ratio_centred_median = metric(f"median {OF_EACH}", SOURCE)
    max_median_ratio_centred_max = metric(f"largest {OF_EACH}", SOURCE)


from jaxtyping import Float
from torch import Tensor

from ablate.probes.max_median_ratio import max_median_ratio

CENTRED = {
    "max_median_ratio": "max_median_ratio_centred",
    "max_median_ratio_median": "max_median_ratio_centred_median",
    "max_median_ratio_max": "max_median_ratio_centred_max",
}


@implements(MaxMedianRatioCentred)
def max_median_ratio_centred(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    ratios = max_median_ratio(x - x.mean(-1, keepdim=True))
    return {CENTRED[metric]: value for metric, value in ratios.items()}
