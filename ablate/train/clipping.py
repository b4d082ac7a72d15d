"""The global gradient norm, and clipping to it.

|g| = sqrt(Σ_θ |∂L/∂θ|²)        g ← g · min(1, clip / (|g| + 1e-6))

Pascanu et al. 2013, arXiv:1211.5063, as in `torch.nn.utils.clip_grad_norm_`
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def gradient_norm(model: nn.Module) -> Tensor:
    """Compute the 2-norm over all gradients without changing any, so that a non-finite norm can still be traced."""
    return get_total_norm([p.grad for p in model.parameters() if p.grad is not None])


def clip_gradients(model: nn.Module, clip: float | None, norm: Tensor) -> None:
    """Scale the gradients down to norm `clip` if `norm` is larger; do nothing if `clip` is None."""
    if clip is not None:
        clip_grads_with_norm_(model.parameters(), clip, norm)
