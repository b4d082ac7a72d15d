"""Initialisation: every parameter from a random stream of its own, seeded by its address.

Two models of one seed share the numbers of every parameter that has the same address and shape in both, so an edit
changes what it changes and nothing else: variants are paired. Numbers are drawn in float64 on the CPU, then rounded to
the type and moved to the device of the model: a float32 model is the float64 one, rounded, on every device.

Code that names no generator (`nn.Linear` in a constructor, `nn.init.normal_` in `initialise`) draws from one that
begins at the seed of its part's address (`random_streams.py`): the same pairing, for the part as a whole.

A weight may start from the numbers of others (the inverse of the one beside it). As those follow from seed, salt and
address, they are made anew, in float64, wherever the others stand; that they were filled by the same scheme is checked
once the model is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

from ablate.compiler.random_streams import seeded, stream_seed
from ablate.errors import InputError

VERSION: Final = 1
"""Of the numbers of what parameters start from: see `plan/versions.py`."""


@runtime_checkable
class Init(Protocol):
    """What a component of the slot for inits implements."""

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        """Fill [d_out, d_in] in place."""


@runtime_checkable
class InitAfter(Protocol):
    """Or this, where the numbers follow from those of other weights."""

    def fill_after(self, tensor: Tensor, d_in: int, d_out: int, draw: Any, name: str) -> None:
        """Fill [d_out, d_in] in place; `draw` stands at the module, and knows the numbers of others."""


@runtime_checkable
class Initialised(Protocol):
    """A module with parameters that do not start at the constants it was constructed with."""

    def initialise(self, draw: Any) -> None:
        """Fill them, each by `draw`, under its name in the module."""


Name: TypeAlias = tuple[str, str]
"""The address of a module, and the name of one of its weights."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A weight as it was asked for: what fills [d_out, d_in]."""

    scheme: Init | InitAfter
    d_in: int
    d_out: int


@dataclass(frozen=True, slots=True)
class Draw:
    """Fills the parameters of the module at `address`, by `scheme` where they name none of their own.

    `drawn` are the weights filled so far, `presumed` those whose numbers another weight was made from.
    """

    seed: int
    salt: int
    scheme: Init | InitAfter
    address: str = ""
    drawn: dict[Name, Numbers] = field(default_factory=dict)
    presumed: dict[Name, Numbers] = field(default_factory=dict)

    def weight(self, name: str, parameter: Tensor, scheme: Init | InitAfter | None, *, d_in: int, d_out: int) -> None:
        """Fill a matrix by `scheme`, or by the model's where that is None."""
        asked = Numbers(scheme or self.scheme, d_in, d_out)
        self._give(parameter, self._made(name, asked))
        self.drawn[self.address, name] = asked

    def normal(self, name: str, parameter: Tensor, std: float) -> None:
        """Fill with independent normal numbers of standard deviation `std`."""
        numbers = torch.zeros(parameter.shape, dtype=torch.float64)
        self._give(parameter, numbers.normal_(0.0, std, generator=self.stream(name)))

    def at(self, address: str) -> Draw:
        """The same, standing at another module."""
        return replace(self, address=address)

    def numbers(self, name: str, scheme: Init | InitAfter, *, d_in: int, d_out: int) -> Tensor:
        """The numbers, [d_out, d_in] in float64, of a weight here that is filled by `scheme`: presumed, and checked."""
        asked = Numbers(scheme, d_in, d_out)
        self.presumed[self.address, name] = asked
        return self._made(name, asked)

    def stream(self, name: str) -> torch.Generator:
        """The generator of the parameter `name` of this module."""
        address = f"{self.address}.{name}".lstrip(".")
        return torch.Generator().manual_seed(stream_seed(self.seed, self.salt, address))

    def check(self) -> None:
        """InputError where a weight of the module here starts from other numbers than another weight presumed."""
        for (address, name), asked in list(self.presumed.items()):
            inside = not self.address or address.startswith(f"{self.address}.")
            there = self.drawn.get((address, name))
            if inside and (there is None or not self.at(address)._same(name, asked, there)):
                raise InputError(
                    f"a weight starts from numbers made of others', but {address} does not start from those numbers\n"
                    "  = say the same init in both places"
                )

    def _same(self, name: str, one: Numbers, other: Numbers) -> bool:
        if one.scheme is other.scheme:
            return True
        return (one.d_in, one.d_out) == (other.d_in, other.d_out) and torch.equal(
            self._made(name, one), self._made(name, other)
        )

    def _made(self, name: str, asked: Numbers) -> Tensor:
        numbers = torch.zeros(asked.d_out, asked.d_in, dtype=torch.float64)
        if isinstance(asked.scheme, InitAfter):
            asked.scheme.fill_after(numbers, asked.d_in, asked.d_out, self, name)
        else:
            asked.scheme.fill(numbers, asked.d_in, asked.d_out, self.stream(name))
        return numbers

    @staticmethod
    def _give(parameter: Tensor, numbers: Tensor) -> None:
        with torch.no_grad():
            parameter.copy_(numbers)


def initialise(model: nn.Module, draw: Draw) -> None:
    """Fill every parameter of `model`, whose own address is that of `draw`.

    Raises InputError where a weight was made from the numbers of another that does not start from them.
    """
    for name, module in model.named_modules():
        if isinstance(module, Initialised):
            here = draw.at(f"{draw.address}.{name}".strip("."))
            with seeded(stream_seed(draw.seed, draw.salt, f"{here.address} initialised")):
                module.initialise(here)
    draw.check()
