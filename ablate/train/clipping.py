"""The global gradient norm, and clipping to it.

|g| = sqrt(Σ_θ |∂L/∂θ|²)        g ← g · min(1, clip / (|g| + 1e-6))

Pascanu et al. 2013, arXiv:1211.5063, as in `torch.nn.utils.clip_grad_norm_`
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def gradient_norm(model: nn.Module) -> Tensor:
    """The 2-norm over all gradients; no gradient is touched, so a norm that is not finite can still be traced."""
    return get_total_norm([p.grad for p in model.parameters() if p.grad is not None])


def clip_gradients(model: nn.Module, clip: float | None, norm: Tensor) -> None:
    """Scale the gradients down to `clip` where `norm` is larger; nothing where `clip` is None."""
    if clip is not None:
        clip_grads_with_norm_(model.parameters(), clip, norm)
