"""Token cosine: have the tokens of a sequence become alike (rank collapse)?

    cos_b = mean_{i ≠ j} <x_bi, x_bj> / (|x_bi| |x_bj|)        over the pairs of tokens within sequence b

The mean of cos_b over the sequences of the batch: 1 if the tokens of each sequence have the same direction, whatever
the other sequences; 0 if they are orthogonal; at least -1/(T - 1). `token_correlation` is over all tokens of the batch,
so pairs from different sequences dilute it. NaN for a single token, or if a token is zero.

No T × T matrix is built:  Σ_{ij} cos_ij = |Σ_i u_i|²,  u_i = x_i / |x_i|

    He et al. 2023, Fig. 1 and Sec. 3, arXiv:2302.10322; Kedia et al. 2024, Sec. 3.4, arXiv:2403.09635

Dimension key: B sequences of the batch, T tokens of each, d width.
"""

from __future__ import annotations

from ablate.probes.declare import Peak, implements, metric, probe


@probe("token_cosine", reads="sequences", sites=True, source="He et al. 2023, Fig. 1, arXiv:2302.10322", version=1)
class TokenCosine:
    token_cosine = metric(
        "mean of <x_i, x_j> / (|x_i| |x_j|) over all pairs of different tokens within each sequence, "
        "then over the sequences of the batch",
        "He et al. 2023, Fig. 1, arXiv:2302.10322",
        peak=Peak(
            "largest mean cosine of two tokens within a sequence, over the inputs of blocks and head, and over "
            "evaluations; 1 is rank collapse; read on the evaluation windows",
            "arXiv:2302.10322, Fig. 1",
        ),
        at_most=1.0,
    )


from jaxtyping import Float
from torch import Tensor


@implements(TokenCosine)
def token_cosine(x: Float[Tensor, "B T d"]) -> dict[str, Float[Tensor, ""]]:
    time = x.shape[-2]
    directions = x / x.norm(dim=-1, keepdim=True)
    summed = directions.sum(-2).square().sum(-1)  # over all pairs (i, j), including i = j
    alone = directions.square().sum((-2, -1))
    return {"token_cosine": ((summed - alone) / x.new_tensor(time * (time - 1))).mean()}
