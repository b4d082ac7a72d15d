"""The largest singular value of a matrix, tracked by power iteration while the matrix is trained.

    v ← Wᵀ u / |Wᵀ u|        u ← W v / |W v|        σ = uᵀ W v

One iteration per forward pass in training, none in evaluation, where u and v stay as they are. The gradient of σ flows
through W only, ∂σ/∂W = u vᵀ, which is exact if u and v are the singular vectors. A pass in training takes two products
of W and a vector, whatever the batch: 4·O·I FLOPs.

    Miyato et al. 2018, arXiv:1802.05957, Alg. 1.

Dimension key: W is [O, I], u is [O], v is [I].
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class SpectralNorm(nn.Module):
    """σ(W), with the two vectors as buffers, so that a trial resumed from a checkpoint computes the same bits."""

    left: Tensor
    right: Tensor

    def __init__(self, d_in: int, d_out: int):
        super().__init__()
        self.register_buffer("left", torch.zeros(d_out))
        self.register_buffer("right", torch.zeros(d_in))

    @torch.no_grad()
    def start(self, weight: Float[Tensor, "O I"]) -> float:
        """Set u and v to the singular vectors of `weight`, by an SVD in float64 on the CPU, and return σ."""
        u, s, vh = torch.linalg.svd(weight.detach().cpu().double(), full_matrices=False)
        self.left.copy_(u[:, 0])
        self.right.copy_(vh[0])
        return float(s[0])

    def forward(self, weight: Float[Tensor, "O I"]) -> Float[Tensor, ""]:
        """In float32 at least."""
        wide = torch.promote_types(weight.dtype, torch.float32)
        with _full_precision(weight.device):
            matrix = weight.to(wide)
            left, right = self.left.to(wide), self.right.to(wide)
            if self.training:
                right = functional.normalize((matrix.detach().T @ left[:, None])[:, 0], dim=0)
            stretched: Tensor = (matrix @ right[:, None])[:, 0]
            if self.training:
                left = functional.normalize(stretched.detach(), dim=0)
                with torch.no_grad():
                    self.left.copy_(left)
                    self.right.copy_(right)
            return (left * stretched).sum()


def _full_precision(device: torch.device) -> AbstractContextManager[object]:
    """In bfloat16 the norm would be off by a percent. Meta has no autocast."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)
