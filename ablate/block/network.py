"""The network of nonlinear layers and residuals that a model is, as data: what shaped activations are solved for.

    Layer       one nonlinear layer
    Residual    a sum of skip and branches, in shares of its mean square
    Repeated    the same in a row

A network is a sequence of these, and so is each branch. `own_network.py` makes that of a model's blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from ablate.errors import InputError


@dataclass(frozen=True, slots=True)
class Layer:
    """One nonlinear layer."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a residual; `share` is its part of the mean square of the sum."""

    share: float
    elements: Elements


@dataclass(frozen=True, slots=True)
class Residual:
    """A sum of skip and branches: `skip` and the shares of the branches are those of the mean square, and add up to 1.

    `residual` makes it from gains.
    """

    skip: float
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same elements `times` times in a row."""

    times: int
    elements: Elements


@dataclass(frozen=True, slots=True)
class OwnNetwork:
    """The network that the `depth` blocks of a model are."""

    elements: Elements
    depth: int


BLOCK: Final = "block"
"""The word for the network of a model's own blocks."""
STACK: Final = "stack"
"""The word for a network of equal residuals whose number and skips are written beside it."""

Element: TypeAlias = Layer | Residual | Repeated
Elements: TypeAlias = tuple[Element, ...]


def residual(skip: float, *branches: tuple[float, Elements]) -> Residual:
    """Make the residual of a skip and branches with these gains: shares are squares of gains over their sum.

    These are the shares where skip and branches have the same mean square. Raises InputError where all gains are 0.

    >>> residual(2.0, (1.0, (Layer(),)))
    Residual(skip=0.8, branches=(Branch(share=0.2, elements=(Layer(),)),))
    """
    total = skip**2 + sum(gain**2 for gain, _ in branches)
    if not total > 0:
        raise InputError(
            "a residual whose skip and branches have gains of 0 gives nothing\n  = change one of the gains"
        )
    return Residual(skip**2 / total, tuple(Branch(gain**2 / total, elements) for gain, elements in branches))


def layers_in(elements: Elements) -> int:
    """Count the nonlinear layers of a sequence."""
    return sum(_layers(element) for element in elements)


def _layers(element: Element) -> int:
    match element:
        case Layer():
            return 1
        case Residual(branches=branches):
            return sum(layers_in(branch.elements) for branch in branches)
        case Repeated(times=times, elements=elements):
            return times * layers_in(elements)
