"""Adam: steps by the running mean of the gradient, divided by the root of the running mean of its square.

    g ← g + λ θ        m ← β₁ m + (1 - β₁) g        v ← β₂ v + (1 - β₂) g²

    θ ← θ - η (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps)

Weight decay is an L2 penalty: λ θ is added to the gradient, and divided by the root like it. AdamW keeps it out of both
means. Computed by PyTorch's own `torch.optim.Adam`, fused where PyTorch can.

    Kingma & Ba 2015, arXiv:1412.6980, Alg. 1; the penalty as in Loshchilov & Hutter 2019, arXiv:1711.05101, Alg. 2
"""

from __future__ import annotations

from ablate.train.optimizers.declare import Betas, Positive, Settings, Trained, groups, implements, optimizer


@optimizer("adam", source="Kingma & Ba 2015, arXiv:1412.6980", version=1)
class Adam(Settings):
    """Adam; `weight_decay` is that of an L2 penalty."""

    betas: Betas
    eps: Positive


from torch import optim


@implements(Adam)
def build(parameters: list[Trained], settings: Adam) -> optim.Optimizer:
    tensors = [each.tensor for each in parameters]
    fused = all(tensor.is_floating_point() and tensor.device.type in ("cpu", "cuda") for tensor in tensors)
    common = {"lr": settings.lr, "betas": settings.betas, "eps": settings.eps}
    return optim.Adam(groups(parameters), **common, fused=fused or None)  # type: ignore[arg-type]
