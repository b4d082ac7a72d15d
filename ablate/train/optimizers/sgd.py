"""SGD: steps against the gradient, with momentum.

    g ← g + λ θ        b ← μ b + (1 - τ) g        θ ← θ - η b

    Nesterov           θ ← θ - η (g + μ b)

The first b is the first g, whatever the dampening τ. Weight decay is an L2 penalty: λ θ is added to the gradient.
Computed by PyTorch's own `torch.optim.SGD`.

    Polyak 1964, doi:10.1016/0041-5553(64)90137-5; Nesterov's form as in Bengio et al. 2012, arXiv:1212.0901, Eq. 7
"""

from __future__ import annotations

from pydantic import model_validator

from ablate.train.optimizers.declare import Decay, Settings, Trained, groups, implements, optimizer


@optimizer("sgd", source="Polyak 1964, doi:10.1016/0041-5553(64)90137-5", version=1)
class SGD(Settings):
    """SGD with `momentum` μ (0: none) and its `dampening` τ; `nesterov` looks ahead by it."""

    momentum: Decay
    dampening: Decay
    nesterov: bool

    @model_validator(mode="after")
    def _momentum_is_there(self) -> SGD:
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError("nesterov needs a momentum above 0 and no dampening")
        if self.momentum == 0 and self.dampening != 0:
            raise ValueError("dampening applies to the momentum, which is 0 here")
        return self


from torch import optim


@implements(SGD)
def build(parameters: list[Trained], settings: SGD) -> optim.Optimizer:
    return optim.SGD(
        groups(parameters),
        lr=settings.lr,
        momentum=settings.momentum,
        dampening=settings.dampening,
        nesterov=settings.nesterov,
    )
