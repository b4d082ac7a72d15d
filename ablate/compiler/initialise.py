"""Initialisation: every parameter from a random stream of its own, seeded by its address.

Two models of one seed share the numbers of every parameter that has the same address and shape in both, so an edit
changes what it changes and nothing else: variants are paired. Numbers are drawn in float64 on the CPU, then rounded to
the type and moved to the device of the model: a float32 model is the float64 one, rounded, on every device.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Init(Protocol):
    """What a component of the slot for inits implements."""

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        """Fill [d_out, d_in] in place."""


@runtime_checkable
class Initialised(Protocol):
    """A module with parameters that do not start at the constants it was constructed with."""

    def initialise(self, draw: Any) -> None:
        """Fill them, each by `draw`, under its name in the module."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Fills the parameters of the module at `address`, by `scheme` where they name none of their own."""

    seed: int
    salt: int
    scheme: Init
    address: str = ""

    def weight(self, name: str, parameter: Tensor, scheme: Init | None, *, d_in: int, d_out: int) -> None:
        """Fill a matrix by `scheme`, or by the model's where that is None."""
        numbers = torch.zeros(parameter.shape, dtype=torch.float64)
        (scheme or self.scheme).fill(numbers, d_in, d_out, self.stream(name))
        self._give(parameter, numbers)

    def normal(self, name: str, parameter: Tensor, std: float) -> None:
        """Fill with independent normal numbers of standard deviation `std`."""
        numbers = torch.zeros(parameter.shape, dtype=torch.float64)
        self._give(parameter, numbers.normal_(0.0, std, generator=self.stream(name)))

    def stream(self, name: str) -> torch.Generator:
        """The generator of the parameter `name` of this module."""
        address = f"{self.address}.{name}".lstrip(".")
        digest = hashlib.sha256(f"{self.seed}/{self.salt}/{address}".encode()).digest()
        # PyTorch's CPU generator keeps 32 bits of a seed.
        return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))

    @staticmethod
    def _give(parameter: Tensor, numbers: Tensor) -> None:
        with torch.no_grad():
            parameter.copy_(numbers)


def initialise(model: nn.Module, draw: Draw) -> None:
    """Fill every parameter of `model`, whose own address is that of `draw`."""
    for name, module in model.named_modules():
        if isinstance(module, Initialised):
            module.initialise(replace(draw, address=f"{draw.address}.{name}".strip(".")))
