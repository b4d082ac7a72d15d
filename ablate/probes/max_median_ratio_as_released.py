"""Max-median ratio as the code released with the paper computes it.

    X' = X - mean_j X        MMR(X') = mean_α ( max_j |X'_αj| / median_j |X'_αj| )

Centred over the width, and the median of an even number of values is the lower of the middle two, as `torch.median`
takes it (`max_median_ratio` does neither): so the ratio is never below that with the mean of the two.

    He & Hofmann 2024, arXiv:2311.01906, and He et al. 2024, arXiv:2405.19279: `compute_loss` of their released code
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SOURCE = "released code of arXiv:2311.01906 and arXiv:2405.19279, compute_loss"


@probe(
    "max_median_ratio_as_released",
    reads="stream",
    source=SOURCE,
    version=1,
)
class MaxMedianRatioAsReleased:
    max_median_ratio_as_released = metric(
        "mean over the tokens of the batch of each token's max_j |x_j| / median_j |x_j| with x centred over "
        "the width; the median of an even width is the lower of the middle two",
        SOURCE,
    )


from jaxtyping import Float
from torch import Tensor


@implements(MaxMedianRatioAsReleased)
def max_median_ratio_as_released(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    size = (x - x.mean(-1, keepdim=True)).abs()
    return {"max_median_ratio_as_released": (size.amax(-1) / size.median(-1).values).mean()}
