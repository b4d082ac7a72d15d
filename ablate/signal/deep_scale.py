"""DeepScaleLM: the correlation between tokens, layer by layer, that weights are scaled by so that variances stay 1.

r ← r_0 (1-p),  s ← 1;   for each layer n:
    r_n = r                                                     the input of the layer's attention
    r ← (λ² r s + β² (1-p)) / (λ² s + β²),   s ← λ² s + β²      after attention, whose output is correlated by 1-p
    r ← (λ² r s + β² g(r)) / (λ² s + β²),    s ← λ² s + β²      after the MLP
    g(r) = (1-p) (r + (√(1-r²) - r acos r)/π)

Kedia et al. 2024, arXiv:2403.09635, Sec. 3.5 and App. M. (Fig. 15 there appends r after the layer, which is one
layer too late: Table 2 wants the correlation that enters attention.)
"""

from __future__ import annotations

from ablate.signal.moments import Moments, add_skip
from ablate.signal.sublayers import mlp


def correlations(n_layers: int, correlation: float, p: float, skip: float, gain: float) -> tuple[float, ...]:
    """Compute r_1, …, r_N, the correlation that enters the attention of each layer.

    `correlation` is r_0, that of the embeddings before their dropout; p the dropout; every residual is λx + β·branch.
    """
    entering = []
    x = Moments(1.0, correlation * (1 - p))
    for _ in range(n_layers):
        entering.append(x.correlation)
        x = add_skip(x, Moments(1.0, 1 - p), skip, gain)
        x = add_skip(x, Moments(1.0, mlp(x, 1.0, p).correlation), skip, gain)
    return tuple(entering)


def weight_std(correlation: float, p: float, d_in: int) -> float:
    """Compute the standard deviation of value and projection weights that gives attention an output of variance 1.

    σ_v² = σ_o² = √((1-p)/r) / d, so that d² σ_v² σ_o² r / (1-p) = 1.
    """
    return float((((1 - p) / correlation) ** 0.5 / d_in) ** 0.5)
