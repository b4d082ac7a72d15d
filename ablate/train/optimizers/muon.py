"""Muon: momentum whose matrices are made near orthogonal by a Newton–Schulz iteration; AdamW for everything else.

    B ← μ B + G        U = G + μ B  (Nesterov), or B        X = U / (|U| + 1e-7)        |U| the Frobenius norm

    `iterations` times    A = X Xᵀ        X ← a X + (b A + c A²) X        (a, b, c) = (3.4445, -4.7750, 2.0315)

    θ ← θ - η λ θ - η k X        k = 0.2 sqrt(max(m, n))    `match_rms_adamw`    arXiv:2502.16982, Eq. 4
                                 k = sqrt(max(1, m / n))    `original`           Jordan et al. 2024

for a weight of m outputs and n inputs, transposed inside the iteration if m > n. After five iterations singular values
of U beyond some 0.002 |U| end between 0.68 and 1.21; smaller ones are raised up to 3.4445⁵-fold. With `match_rms_adamw`
a step has the size of one of AdamW's.

Muon updates the parameters of kind `weights` that are matrices, within blocks, at `lr`. Embeddings, the head,
positions, gains, scales of norms, biases, tables of biases and weights of other shapes are updated by AdamW (`betas`,
`eps`), at `adamw_lr`, or at `embedding_lr`, `head_lr` and `norm_lr` where these are given. The rate that is best for
matrices says nothing of the others, so `adamw_lr` is a rate of its own, unless it is written `adamw_lr: lr`, or null as
in grammars of before. Computed in the parameters' own precision; released code iterates in bfloat16.

    Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982, Eq. 1, 2 and 4
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, Self

from ablate.train.optimizers.declare import (
    OTHERS,
    Betas,
    Count,
    Decay,
    Positive,
    Rate,
    Settings,
    Trained,
    groups,
    implements,
    optimizer,
)

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""a, b and c of the iteration: a steep start, at the price of singular values that end near 1, not at it."""


@optimizer("muon", source="Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982", version=1)
class Muon(Settings):
    """Muon for matrices, with the `scale` of their updates; AdamW for the rest, with `adamw_lr`, `betas`, `eps`."""

    rule = "Muon"

    momentum: Decay
    nesterov: bool
    iterations: Count
    scale: Literal["match_rms_adamw", "original"]
    adamw_lr: Positive | Literal["lr"] | None
    betas: Betas
    eps: Positive

    @property
    def others(self) -> Rate:
        if self.adamw_lr is None or isinstance(self.adamw_lr, str):
            return Rate(self.lr, "lr", "AdamW")
        return Rate(self.adamw_lr, "adamw_lr", "AdamW")

    def effective(self, steps: int) -> Self:
        """AdamW's rate becomes a number, and Nesterov's look ahead goes where there is no momentum."""
        plain = {"adamw_lr": self.others.lr, "nesterov": self.nesterov and self.momentum > 0}
        return super().effective(steps).model_copy(update=plain)


from torch import Tensor, optim, zeros_like

from ablate.train.optimizers.by_parameter import ByParameter, adam_direction


@implements(Muon)
def build(parameters: list[Trained], settings: Muon) -> optim.Optimizer:
    matrices = [each for each in parameters if is_matrix(each)]
    others = [each for each in parameters if not is_matrix(each)]
    others = [replace(each, name="adamw", peak=settings.others.lr) if each.name == OTHERS else each for each in others]
    by_muon = {
        "by": "muon",
        "momentum": settings.momentum,
        "nesterov": settings.nesterov,
        "iterations": settings.iterations,
        "scale": settings.scale,
    }
    by_adamw = {"by": "adamw", "betas": settings.betas, "eps": settings.eps}
    return MuonAdamW([*groups(matrices, **by_muon), *groups(others, **by_adamw)], {"lr": settings.lr})


def is_matrix(parameter: Trained) -> bool:
    return parameter.kind == "weights" and parameter.matrix


class MuonAdamW(ByParameter):
    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["by"] == "adamw":
            direction, size = adam_direction(gradient, state, group), 1.0
        else:
            if not state:
                state["momentum"] = zeros_like(parameter)
            momentum = state["momentum"].mul_(group["momentum"]).add_(gradient)
            ahead = gradient.add(momentum, alpha=group["momentum"]) if group["nesterov"] else momentum
            direction, size = orthogonalised(ahead, group["iterations"]), scale(parameter, group["scale"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction, alpha=group["lr"] * size)


def orthogonalised(matrix: Tensor, iterations: int) -> Tensor:
    """[m, n] -> [m, n]: the same singular vectors, with singular values near 1."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def scale(weight: Tensor, rule: str) -> float:
    """The factor of an update, for a weight of m outputs and n inputs."""
    outputs, inputs = weight.shape
    return 0.2 * math.sqrt(max(outputs, inputs)) if rule == "match_rms_adamw" else math.sqrt(max(1, outputs / inputs))
