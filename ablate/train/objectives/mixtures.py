"""The loss of examples that are mixtures of two classes, as MixUp makes them.

    loss_b = λ_b loss(class_b) + (1 - λ_b) loss(other class_b)

For a cross-entropy that is the loss of the target that gives class_b the probability λ_b (Zhang et al. 2018,
arXiv:1710.09412, Sec. 2). Squares differ from those to that target by λ_b (1 - λ_b) |e_class - e_other|², which has no
gradient, where all outputs weigh the same.

Dimension key: B batch.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from ablate.data.batch import Tensors


def each_mixed(targets: Tensors, loss: Callable[[Tensor], Tensor]) -> Float[Tensor, "B"]:
    """Return the loss of each example by that of classes; `targets` are classes, or (classes, others, shares)."""
    if isinstance(targets, Tensor):
        return loss(targets)
    classes_B, others_B, share_B = targets
    of_class_B, of_other_B = loss(classes_B), loss(others_B)
    share_B = share_B.to(of_class_B.dtype)
    return share_B * of_class_B + (1 - share_B) * of_other_B
