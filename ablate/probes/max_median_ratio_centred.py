"""Max-median ratios of activations that are centred over the width.

    X'_αj = X_αj - mean_i X_αi        MMR(X') by mean, median and max over tokens, as the probe `max_median_ratio`

`max_median_ratio_as_released` centres as well, and takes the lower of the middle two for the median.

    He et al. 2024, Eq. 5, centred as in footnote 1 and Fig. 13, arXiv:2405.19279

Dimension key: n tokens of the batch, d width; α counts tokens, i and j neurons.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ablate.probes.max_median_ratio import max_median_ratio
from ablate.probes.probe import StreamProbe
from ablate.space.metrics import Definition

SOURCE = "He et al. 2024, Eq. 5, centred as in Fig. 13, arXiv:2405.19279"
CENTRED = {
    "max_median_ratio": "max_median_ratio_centred",
    "max_median_ratio_median": "max_median_ratio_centred_median",
    "max_median_ratio_max": "max_median_ratio_centred_max",
}
OF_EACH = "over the tokens of the batch of each token's max_j |x_j| / median_j |x_j|, centred over the width first"


def max_median_ratio_centred(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    """Eq. 5 of the centred tokens, by mean, median and max over tokens."""
    ratios = max_median_ratio(x - x.mean(-1, keepdim=True))
    return {CENTRED[metric]: value for metric, value in ratios.items()}


PROBE = StreamProbe(
    definitions=tuple(
        Definition(metric, f"{by} {OF_EACH}", SOURCE)
        for metric, by in zip(CENTRED.values(), ("mean", "median", "largest"), strict=True)
    ),
    measure=max_median_ratio_centred,
)
