"""A number read from a model, and the probe that reads it: its declaration with the function that measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ablate.space.metrics import IN_TRAINING, PASSED_BACK, ProbeSpec


@dataclass(frozen=True, slots=True)
class Reading:
    """`value` is a tensor without dimensions, still on its device."""

    metric: str
    address: str
    value: Tensor


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe as it is hooked to a model; `ablate docs probe` gives the arguments of `measure`."""

    spec: ProbeSpec
    measure: Callable[..., Any]

    @property
    def of_parameters(self) -> bool:
        """Reads parameters and their gradients once the backward pass is over."""
        return self.spec.reads == "parameters"

    @property
    def of_gradients(self) -> bool:
        """Reads the gradients of the stream as they pass back, in each part of a batch by itself."""
        return self.spec.reads in PASSED_BACK

    @property
    def by_part(self) -> bool:
        """Reads in each part of a batch by itself while that passes through the model, in steps of training."""
        return self.of_gradients or self.spec.site == IN_TRAINING

    @property
    def of_updates(self) -> bool:
        """Reads the stream before and after a step, each in a pass of its own."""
        return self.spec.reads == "update"

    @property
    def of_matrices(self) -> bool:
        """Reads a matrix over positions, only at a few places and evaluations."""
        return self.spec.reads == "kernel"
