"""Constants of attention, made once a process and shared by all layers and models that ask for the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVarTuple

import torch
from torch import Tensor

TABLES = 2
"""Constants held of each kind: one for the sequences trained on, one for those evaluated on."""

Ts = TypeVarTuple("Ts")


def kept(make: Callable[[*Ts], Tensor]) -> Callable[[*Ts], Tensor]:
    """`make`, computed once for the same arguments and then given as a view, so that `masked` writes into none.

    Its arguments must be hashable and say all that the numbers depend on, device and type among them.
    """

    @functools.lru_cache(maxsize=TABLES)
    def once(*args: *Ts) -> Tensor:
        # One made in inference mode could never be saved for a backward pass.
        with torch.inference_mode(False):
            return make(*args)

    @functools.wraps(make)
    def shared(*args: *Ts) -> Tensor:
        # While a graph is traced there are no numbers to keep: it makes its own.
        table = make(*args) if torch.compiler.is_compiling() else once(*args)
        return table[...]

    return shared
