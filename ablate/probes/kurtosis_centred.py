"""Kurtosis of neuron RMS, for activations centred over the width.

    X'_αj = X_αj - mean_i X_αi        Kurt(X'), with Kurt the probe `kurtosis` (Eq. 1)

The mean over neurons is first subtracted from each token, as LayerNorm would. `kurtosis_as_released` is the same number
minus 1, times d/(d - 1). NaN if every token has equal entries.

    He et al. 2024, footnote 1 and Fig. 13, arXiv:2405.19279
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe


@probe("kurtosis_centred", reads="stream", source="He et al. 2024, footnote 1 and Fig. 13, arXiv:2405.19279", version=1)
class KurtosisCentred:
    kurtosis_centred = metric(
        "kurtosis (Eq. 1) over the tokens of the batch jointly, with each token centred over the width first",
        "He et al. 2024, footnote 1 and Fig. 13, arXiv:2405.19279",
    )


from jaxtyping import Float
from torch import Tensor

from ablate.probes.kurtosis import kurtosis


@implements(KurtosisCentred)
def kurtosis_centred(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    return {"kurtosis_centred": kurtosis(x - x.mean(-1, keepdim=True))["kurtosis"]}
