"""Normality of the gradients of the stream: how nearly normal is what a block passes back into its input?

    R² of the quantile-quantile plot of G = ∂L/∂X, as `normality` has it of X

X is the input of a block, or of the head; G is the whole gradient of the loss there, along every way from X to it. The
paper finds 0.999 at the deepest layer.

    Kedia et al. 2024, App. L, arXiv:2403.09635
"""

from __future__ import annotations

from typing import Final

from ablate.probes.declare import implements, metric, probe

SOURCE: Final = "Kedia et al. 2024, App. L, arXiv:2403.09635"


@probe("gradient_normality", reads="gradients", source=SOURCE, version=1)
class GradientNormality:
    gradient_normality = metric(
        "R^2 of the normal quantile-quantile plot of the gradient of the batch's mean loss with respect to the stream: "
        "squared correlation of the sorted entries with the normal quantiles of (i - 1/2) / N, over the tokens and "
        "neurons of the batch jointly, or of more than 65536 entries each k-th, k the smallest that leaves no more and "
        "is coprime to the width; 1 at most, for a normal distribution",
        SOURCE,
        at_most=1.0,
        better="none",
    )


from jaxtyping import Float
from torch import Tensor

from ablate.probes.normality import straightness


@implements(GradientNormality)
def gradient_normality(gradient: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    return {"gradient_normality": straightness(gradient)}
