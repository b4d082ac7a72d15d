"""Moment updates: what one step of training adds to the moments of the stream, order by order in the change of it.

    m_2(X) = mean_j s_j²        m_4(X) = mean_j s_j⁴        s_j² = mean_α X_αj²        kurtosis = m_4 / m_2²

    u_p = m_p(X + Δ) - m_p(X) = Σ_l u_(p,l)        a_j = Σ_α X_αj²    b_j = Σ_α 2 Δ_αj X_αj    c_j = Σ_α Δ_αj²

    u_(2,1) = Σ_j b_j / (n d)             u_(2,2) = Σ_j c_j / (n d)
    u_(4,1) = Σ_j 2 a_j b_j / (n² d)      u_(4,2) = Σ_j (2 a_j c_j + b_j²) / (n² d)
    u_(4,3) = Σ_j 2 b_j c_j / (n² d)      u_(4,4) = Σ_j c_j² / (n² d)

The paper's u_(p,l) are the sums without 1/(n d) and 1/(n² d), which it has in Eq. 7 and 10 instead; with them they do
not grow with the batch. u_(p,l) is about of order l in the learning rate. The terms of even order are never negative.

X and X + Δ are the stream before and after one step, of the step's own tokens, as the model computes it: with bfloat16
Δ has its rounding, which may be as large as the change itself.

    He et al. 2024, App. I, Eq. 6-12, arXiv:2405.19279
"""

from __future__ import annotations

from typing import Final

from ablate.probes.declare import implements, metric, probe

SOURCE: Final = "He et al. 2024, App. I, Eq. 6-12, arXiv:2405.19279"
OF: Final = (
    "over the tokens of the step's batch jointly, X before the step and X + D after it, "
    "a_j = sum over tokens of X^2, b_j of 2 D X, c_j of D^2; n tokens, d neurons"
)


@probe("moment_update", reads="update", source=SOURCE, version=1)
class MomentUpdate:
    moment_update_2_1 = metric(f"u_(2,1) / (n d) = sum_j b_j / (n d), {OF}", SOURCE, better="none")
    moment_update_2_2 = metric(f"u_(2,2) / (n d) = sum_j c_j / (n d), {OF}", SOURCE, better="none")
    moment_update_4_1 = metric(f"u_(4,1) / (n^2 d) = sum_j 2 a_j b_j / (n^2 d), {OF}", SOURCE, better="none")
    moment_update_4_2 = metric(f"u_(4,2) / (n^2 d) = sum_j (2 a_j c_j + b_j^2) / (n^2 d), {OF}", SOURCE, better="none")
    moment_update_4_3 = metric(f"u_(4,3) / (n^2 d) = sum_j 2 b_j c_j / (n^2 d), {OF}", SOURCE, better="none")
    moment_update_4_4 = metric(f"u_(4,4) / (n^2 d) = sum_j c_j^2 / (n^2 d), {OF}", SOURCE, better="none")


from jaxtyping import Float
from torch import Tensor


@implements(MomentUpdate)
def moment_update(x: Float[Tensor, "n d"], after: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    """Eq. 8, 11 and 12."""
    change = after - x
    a, b, c = x.square().mean(0), 2 * (change * x).mean(0), change.square().mean(0)  # of Eq. 7 and 10: over n
    return {
        "moment_update_2_1": b.mean(),
        "moment_update_2_2": c.mean(),
        "moment_update_4_1": (2 * a * b).mean(),
        "moment_update_4_2": (2 * a * c + b.square()).mean(),
        "moment_update_4_3": (2 * b * c).mean(),
        "moment_update_4_4": c.square().mean(),
    }
