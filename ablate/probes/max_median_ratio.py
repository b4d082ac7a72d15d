"""Max-median ratio: how far a token's largest activation stands above its typical one.

    MMR(X) = mean_α ( max_j |X_αj| / median_j |X_αj| )

The median of an even number of values is the mean of the middle two (`torch.median` takes the lower of them). 1 at
least; infinite when half a token's activations are zero and one is not, NaN when a token is zero.

    He et al. 2024, Eq. 5 with the mean over tokens, arXiv:2405.19279

Dimension key: n tokens of the batch, d width; α counts tokens, j neurons.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ablate.probes.probe import StreamProbe
from ablate.space.metrics import Definition


def max_median_ratio(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    """Eq. 5, aggregated over tokens by their mean."""
    ascending = x.abs().sort(dim=-1).values
    d = x.shape[-1]
    median = (ascending[:, (d - 1) // 2] + ascending[:, d // 2]) / 2
    return {"max_median_ratio": (ascending[:, -1] / median).mean()}


PROBE = StreamProbe(
    definitions=(
        Definition(
            "max_median_ratio",
            "mean over tokens of max_j |x_j| / median_j |x_j|; "
            "the median of an even width is the mean of the middle two",
            "He et al. 2024, Eq. 5, arXiv:2405.19279",
        ),
    ),
    measure=max_median_ratio,
)
