"""A number read off a model, and what reads: a declared probe with the function that carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ablate.space.metrics import ProbeSpec


@dataclass(frozen=True, slots=True)
class Reading:
    """One number read off a model, still on its device: `value` has no dimension."""

    metric: str
    address: str
    value: Tensor


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe as it is hung on a model: what it declares, and `measure`, which `declare.py` says what is given to."""

    spec: ProbeSpec
    measure: Callable[..., Any]

    @property
    def of_parameters(self) -> bool:
        """Whether it reads in steps of training, whose gradients there are, and not at evaluations."""
        return self.spec.reads == "parameters"

    @property
    def of_matrices(self) -> bool:
        """Whether it reads a matrix over positions, at a few places and evaluations alone."""
        return self.spec.reads == "kernel"
