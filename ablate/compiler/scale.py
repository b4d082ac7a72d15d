"""Scale: a gain as a module, recognised by probes and by the optimiser's groups through its class."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Scale(nn.Module):
    """y = g * x, where g is fixed or trained: one number, one per channel (LayerScale, arXiv:2103.17239) or per head.

    A trained gain is the parameter `factor`, which starts at `start`: of shape [], [channels], or [heads, 1, 1] on a
    signal [..., heads, T, K]. A fixed one is a plain number, exact in every dtype; a fixed gain of 1 returns its input.
    """

    factor: nn.Parameter | None

    def __init__(self, start: float, *, shape: tuple[int, ...] = (), trainable: bool = False):
        super().__init__()
        self.start = float(start)
        self.factor = nn.Parameter(torch.full(shape, self.start)) if trainable else None

    @property
    def value(self) -> float | Tensor:
        """The current g: a number if fixed, else the parameter."""
        return self.start if self.factor is None else self.factor

    def initialise(self, draw: object) -> None:
        """Reset a trained gain to its start, at its current precision."""
        if self.factor is not None:
            nn.init.constant_(self.factor, self.start)

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        """Multiply each entry by its gain; the shape is kept."""
        return x if self.factor is None and self.start == 1 else self.value * x

    def extra_repr(self) -> str:
        """Return what is printed of it: its start, and whether it is trained."""
        return f"{self.start:g}, trainable={self.factor is not None}"


@dataclass(frozen=True, slots=True)
class ScaleMaker:
    """Maker of the Scale of one field; `value` is its fixed number, None if it is trained."""

    start: float
    trainable: bool
    per: str

    @property
    def value(self) -> float | None:
        """The fixed number, or None."""
        return None if self.trainable else self.start

    def __call__(self, width: int) -> Scale:
        """Make the Scale for a signal of `width` channels, or heads."""
        shapes = {"scalar": (), "channel": (width,), "head": (width, 1, 1)}
        return Scale(self.start, shape=shapes[self.per], trainable=self.trainable)
