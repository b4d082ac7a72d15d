"""What a probe is: a pure function of something seen in a pass of the model, and the definition of what it gives.

A probe of parameters reads in steps of training, whose gradients there are; every other reads activations, on held-out
text, at each evaluation (see `train/evaluation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from ablate.space.metrics import Definition


@dataclass(frozen=True, slots=True)
class Reading:
    """One number read off a model, still on its device: `value` has no dimension."""

    metric: str
    address: str
    value: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProbe:
    """Reads the residual stream where it enters a block (`layers.i`) and the head (`head`, past a final norm), the
    tokens of all sequences of the batch jointly; or at another site (`sites.py`).

    `measure` is given the tokens of the whole batch as X [n, d] in float64 and gives a number for each metric.
    """

    definitions: tuple[Definition, ...]
    measure: Callable[[Float[Tensor, "n d"]], Mapping[str, Float[Tensor, ""]]]
    site: str = "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceProbe:
    """Reads the same stream at the same places, within each sequence.

    `measure` is given the batch as X [B, T, d] in float64 and gives a number for each metric, a mean over sequences.
    """

    definitions: tuple[Definition, ...]
    measure: Callable[[Float[Tensor, "B T d"]], Mapping[str, Float[Tensor, ""]]]
    site: str = "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProbe:
    """Reads a matrix over positions of the same stream, at a few of its places and at few evaluations.

    `measure` is given the batch as X [B, T, d] in float64 and gives a symmetric matrix, a mean over sequences. Its
    cells are readings at the address of the place and the cell, `layers.3[5,2]`, row before column, none above the
    diagonal.
    """

    definitions: tuple[Definition, ...]
    measure: Callable[[Float[Tensor, "B T d"]], Float[Tensor, "R R"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionProbe:
    """Reads every attention core, at the address of the part that holds it.

    `measure` is given the core and its queries and keys [B, H, T, K] as they enter it, and gives a number for each
    metric.
    """

    definitions: tuple[Definition, ...]
    measure: Callable[[nn.Module, Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]], Mapping[str, Float[Tensor, ""]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterProbe:
    """Reads the parameters and their gradients, after the backward pass and before clipping and the update."""

    definitions: tuple[Definition, ...]
    measure: Callable[[nn.Module], Iterator[Reading]]


Probe: TypeAlias = StreamProbe | SequenceProbe | KernelProbe | AttentionProbe | ParameterProbe
