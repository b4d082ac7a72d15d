"""Constants of attention, computed once per process and shared by all layers and models that need the same ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVarTuple

import torch
from torch import Tensor

TABLES = 2
"""Cached constants of each kind: one for training sequences, one for evaluation sequences."""

Ts = TypeVarTuple("Ts")


def kept(make: Callable[[*Ts], Tensor]) -> Callable[[*Ts], Tensor]:
    """Cache `make`: computed once for the same arguments, then returned as a view, which `masked` never overwrites.

    Its arguments must be hashable and include all that the numbers depend on, such as device and dtype.
    """
    return _keeping(make, TABLES)


def keeping(tables: int) -> Callable[[Callable[[*Ts], Tensor]], Callable[[*Ts], Tensor]]:
    """Cache as `kept` does, but this many constants."""
    return lambda make: _keeping(make, tables)


def _keeping(make: Callable[[*Ts], Tensor], tables: int) -> Callable[[*Ts], Tensor]:
    @functools.lru_cache(maxsize=tables)
    def once(*args: *Ts) -> Tensor:
        # A tensor made in inference mode could never be saved for a backward pass.
        with torch.inference_mode(False):
            return make(*args)

    @functools.wraps(make)
    def shared(*args: *Ts) -> Tensor:
        # While a graph is traced there are no numbers to cache: the graph computes its own.
        table = make(*args) if torch.compiler.is_compiling() else once(*args)
        return table[...]

    return shared
