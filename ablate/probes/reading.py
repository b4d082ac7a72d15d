"""A number read from a model, and what reads it: a declared probe with the function that measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ablate.space.metrics import ProbeSpec


@dataclass(frozen=True, slots=True)
class Reading:
    """One number read from a model, still on its device: `value` is a tensor without dimensions."""

    metric: str
    address: str
    value: Tensor


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe as it is hooked to a model: its declaration, and `measure`, whose arguments are given in `declare.py`."""

    spec: ProbeSpec
    measure: Callable[..., Any]

    @property
    def of_parameters(self) -> bool:
        """True if it reads in training steps, where gradients exist, and not at evaluations."""
        return self.spec.reads == "parameters"

    @property
    def of_matrices(self) -> bool:
        """True if it reads a matrix over positions, only at a few places and evaluations."""
        return self.spec.reads == "kernel"
