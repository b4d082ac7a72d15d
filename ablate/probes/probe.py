"""What a probe is: a pure function of something seen in one training step, and the definition of what it gives."""

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
    """Reads the residual stream where it enters a block (`layers.i`) and the head (`head`, past a final norm).

    `measure` is given the tokens of the whole batch as X [n, d] in float64 and gives a number for each metric.
    """

    definitions: tuple[Definition, ...]
    measure: Callable[[Float[Tensor, "n d"]], Mapping[str, Float[Tensor, ""]]]


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


Probe: TypeAlias = StreamProbe | AttentionProbe | ParameterProbe
