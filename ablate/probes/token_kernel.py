"""Token kernel: which tokens of a sequence have become alike, as a matrix over positions.

    C_b = diag(Σ_b)^(-1/2) Σ_b diag(Σ_b)^(-1/2),  Σ_b = X_b X_bᵀ        C_b,ij = <x_bi, x_bj> / (|x_bi| |x_bj|)
    K = M (mean_b C_b) Mᵀ                                                M [R, T] the means over R ranges of positions

Up to 16 tokens K is T × T; for more, each cell is the mean over all pairs (i, j) of two of R = 16 ranges of positions,
including pairs i = j, which are 1: position t, from 0, is in range floor(t R / T). Only cells with i >= j are kept, at
the address of the place and the cell: `layers.3[5,2]`. NaN if a token is zero.

Snapshots are taken at up to 5 evaluations, the first at or after each quarter of training, of up to 8 evenly spaced
layers and of the head: at most 5 × 9 × 136 numbers per trial. No T × T matrix is built: the cells are inner products of
M U_b, with U_b the directions of the tokens.

    He et al. 2023, Fig. 1 and Fig. 15, arXiv:2302.10322

Dimension key: B sequences of the batch, T tokens of each, d width, R ranges.
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe


@probe("token_kernel", reads="kernel", source="He et al. 2023, Fig. 15, arXiv:2302.10322", version=1)
class TokenKernel:
    token_kernel = metric(
        "<x_i, x_j> / (|x_i| |x_j|) within each sequence, mean over the sequences of the batch, at layers.3[i,j], "
        "i >= j; above 16 tokens mean over the pairs of two of 16 ranges of positions; at up to 5 evaluations, "
        "of up to 8 layers and the head",
        "He et al. 2023, Fig. 15, arXiv:2302.10322",
    )


import torch
from jaxtyping import Float
from torch import Tensor

RANGES = 16
LAYERS = 8
SNAPSHOTS = 5


@implements(TokenKernel)
def token_kernel(x: Float[Tensor, "B T d"]) -> Float[Tensor, "R R"]:
    sequences, time, _ = x.shape
    ranges = min(RANGES, time)
    within = torch.arange(time, device=x.device) * ranges // time
    means = torch.nn.functional.one_hot(within, ranges).to(x.dtype)
    means = (means / means.sum(0)).mT
    directions = means @ (x / x.norm(dim=-1, keepdim=True))
    kernel: Tensor = (directions @ directions.mT).sum(0) / sequences
    return kernel


def snapshot_layers(layers: list[str]) -> list[str]:
    """All layers, or 8 evenly spaced from the first to the last."""
    if len(layers) <= LAYERS:
        return layers
    return [layers[round(place * (len(layers) - 1) / (LAYERS - 1))] for place in range(LAYERS)]


def snapshot_due(step: int, steps: int, every: int) -> bool:
    """True if a snapshot is due at the evaluation after `step` of `steps` updates; one follows every `every`.

    >>> [step for step in (*range(0, 200, 10), 200) if snapshot_due(step, 200, 10)]
    [0, 50, 100, 150, 200]
    """
    quarters = (-(-steps * quarter // (SNAPSHOTS - 1)) for quarter in range(SNAPSHOTS))
    return any(step == min(-(-quarter // every) * every, steps) for quarter in quarters)
