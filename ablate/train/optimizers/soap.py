"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner, which is refreshed now and then by a QR decomposition.

    M ← β₁ M + (1 - β₁) G        G' = Q_Lᵀ G Q_R        V ← β₂ V + (1 - β₂) G'²

    N' = (Q_Lᵀ M Q_R / (1 - β₁ᵗ)) / (sqrt(V / (1 - β₂ᵗ)) + eps)        θ ← θ - η λ θ - η Q_L N' Q_Rᵀ

    L ← β₂ L + (1 - β₂) G Gᵀ        R ← β₂ R + (1 - β₂) Gᵀ G
    every `precondition_frequency` updates    Q_L ← qr(L Q_L + τ |L| Q_L)        Q_R ← qr(R Q_R + τ |R| Q_R)

A side of more than `max_precond_dim` units keeps its own basis (Q = 1). The first gradient of a matrix initialises L, R
and Q, their eigenvectors, those of the largest values first, as in the released code. It moves nothing, as there: in
its own eigenbasis all but its diagonal is rounding error, which Adam would blow up to steps of full size.

Where gradients have fewer dimensions than a side has units, any vectors that they do not reach are eigenvectors, of the
value 0, and in Alg. 3 and 4 rounding would choose them, at first and in each QR. Here a rule does: in the space of all
values below τ |L|, with the Frobenius norm and τ = 1e-5, the basis is at first that of the matrix D = diag(1, …, 2) of
even steps, and τ |L| Q keeps it where L has nothing to say. The first basis is computed in float64. Rounding then moves
a run about as it moves one of AdamW, no longer to another run.

This updates weights, embeddings, positions and the head, if they are matrices. Gains, scales of norms, biases, tables
of biases and parameters of other shapes are updated by Adam, which is the same with Q = 1. It is computed in the
parameter's own precision, float64 or float32.

    Vyas et al. 2024, arXiv:2409.11321, Alg. 3 and 4
"""

from __future__ import annotations

import math
from typing import Any, Self

from ablate.train.optimizers.declare import Betas, Count, Positive, Settings, Trained, groups, implements, optimizer


@optimizer("soap", source="Vyas et al. 2024, arXiv:2409.11321", version=2)
class SOAP(Settings):
    """SOAP; `betas` are β₁, of M, and β₂, of V, L and R."""

    betas: Betas
    eps: Positive
    precondition_frequency: Count
    max_precond_dim: Count

    def effective(self, steps: int) -> Self:
        """One frequency stands for all at which no basis is refreshed before the last step."""
        plain = super().effective(steps)
        return plain.model_copy(update={"precondition_frequency": min(self.precondition_frequency, max(1, steps - 1))})


import torch
from torch import Tensor, optim

from ablate.train.divergence import Diverged
from ablate.train.optimizers.by_parameter import ByParameter, adam_direction

TIE = 1e-5
"""τ: eigenvalues below this share of |L| are one, so that rounding does not choose among their eigenvectors."""
ROTATED = ("weights", "embedding", "head", "positions")


@implements(SOAP)
def build(parameters: list[Trained], settings: SOAP) -> optim.Optimizer:
    def rotated(each: Trained) -> bool:
        return each.kind in ROTATED and each.matrix and min(each.tensor.shape) <= settings.max_precond_dim

    common = {
        "betas": settings.betas,
        "eps": settings.eps,
        "frequency": settings.precondition_frequency,
        "largest": settings.max_precond_dim,
    }
    matrices = groups([each for each in parameters if rotated(each)], rotated=True)
    others = groups([each for each in parameters if not rotated(each)], rotated=False)
    return AdamInEigenbasis([*matrices, *others], {"lr": settings.lr, **common})


class AdamInEigenbasis(ByParameter):
    """Algorithm 3 for the groups that are `rotated`, Adam for the others."""

    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["rotated"] and not state:
            self._begin(gradient, state, group)
            return
        of = self._direction if group["rotated"] else adam_direction
        direction = of(gradient, state, group)
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction, alpha=group["lr"])

    def _begin(self, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        begun: dict[str, Any] = {"updates": 0, "mean": torch.zeros_like(gradient), "square": torch.zeros_like(gradient)}
        for side, product in _products(gradient.double(), group["largest"]):
            begun[side] = ((1 - group["betas"][1]) * product).to(gradient.dtype)
            there = torch.where(begun[side].isfinite(), product, math.inf)
            try:
                begun[f"basis_{side}"] = _eigenvectors(there).to(gradient.dtype)
            except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]  # documented, not in `__all__`
                cause = "the square of a gradient has no eigenbasis: it is not finite, or too ill-conditioned"
                raise Diverged({"cause": cause, "seen": "gradient", "address": "", "layer": None}) from error
        state.update(begun)

    def _direction(self, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Compute Q_L N' Q_Rᵀ; then update L and R and, when due, their bases."""
        state["updates"] += 1
        (beta_1, beta_2), updates = group["betas"], state["updates"]
        left, right = state.get("basis_left"), state.get("basis_right")
        mean = state["mean"].mul_(beta_1).add_(gradient, alpha=1 - beta_1)
        there = _rotated(gradient, left, right)
        square = state["square"].mul_(beta_2).addcmul_(there, there, value=1 - beta_2)
        root = square.sqrt().div_(math.sqrt(1 - beta_2**updates)).add_(group["eps"])
        direction = _rotated(mean, left, right).div_(root).div_(1 - beta_1**updates)
        back = _rotated(direction, None if left is None else left.T, None if right is None else right.T)
        for side, product in _products(gradient, group["largest"]):
            state[side].mul_(beta_2).add_(product, alpha=1 - beta_2)
            if updates % group["frequency"] == 0:
                state[f"basis_{side}"] = _refreshed(state[side], state[f"basis_{side}"])
        return back


def _products(gradient: Tensor, largest: int) -> list[tuple[str, Tensor]]:
    sides = (("left", gradient), ("right", gradient.T))
    return [(side, matrix @ matrix.T) for side, matrix in sides if matrix.shape[0] <= largest]


def _eigenvectors(square: Tensor) -> Tensor:
    """The eigenvectors of L, the largest values first; in the space of all values below τ |L| those of D."""
    values, vectors = torch.linalg.eigh(square)
    small = values <= TIE * square.norm()
    units = torch.linspace(1, 2, len(square), dtype=square.dtype, device=square.device)
    within = vectors.T @ (units[:, None] * vectors)
    others = torch.diag(torch.linspace(3, 4, len(square), dtype=square.dtype, device=square.device))  # as they stand
    chosen = torch.linalg.eigh(torch.where(small[:, None] & small, within, others))[1]
    largest_first: Tensor = (vectors @ chosen).flip(1)
    return largest_first


def _refreshed(square: Tensor, basis: Tensor) -> Tensor:
    """Compute Q ← qr((L + τ |L|) Q), of L over a power of two: the squares of |L| neither vanish nor overflow."""
    largest = square.abs().amax()
    if largest == 0:
        return basis
    scaled = torch.ldexp(square, -torch.frexp(largest).exponent)
    basis, _ = torch.linalg.qr(scaled @ basis + TIE * scaled.norm() * basis)
    return basis


def _rotated(matrix: Tensor, left: Tensor | None, right: Tensor | None) -> Tensor:
    turned = matrix.clone() if left is None else left.T @ matrix
    return turned if right is None else turned @ right
