"""One-step sensitivity: by how much does one step of training change what the model computes, relative to it?

    S = Σ_αj Δ_αj² / Σ_αj X_αj²        X and X + Δ: the stream before and after the step, of the same tokens

Kedia et al. call sensitivity, after Davis et al., the variance of the relative change of the output under small
perturbations, averaged over all parameters, with the median over layers. Here the perturbation is the update of all
parameters together, and S is read at the input of every block and of the head, over the whole batch: it is u_(2,2) of
`moment_update` relative to the second moment, and grows as the square of the learning rate while steps are small.

In half precision Δ has its rounding, which may be as large as the change.

    Kedia et al. 2024, Sec. 4.6, arXiv:2403.09635; Davis et al. 2021, ICML (Catformer)
"""

from __future__ import annotations

from typing import Final

from ablate.probes.declare import implements, metric, probe

SOURCE: Final = "after Kedia et al. 2024, Sec. 4.6, arXiv:2403.09635, and Davis et al. 2021"


@probe("one_step_sensitivity", reads="update", source=SOURCE, version=1)
class OneStepSensitivity:
    one_step_sensitivity = metric(
        "sum of D^2 / sum of X^2 over the tokens of the step's batch and the neurons, X before the step and X + D "
        "after it: the perturbation is the step's update of all parameters, at its rate",
        SOURCE,
        better="none",
    )


from jaxtyping import Float
from torch import Tensor


@implements(OneStepSensitivity)
def one_step_sensitivity(x: Float[Tensor, "n d"], after: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    return {"one_step_sensitivity": (after - x).square().sum() / x.square().sum()}
