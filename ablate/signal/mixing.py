"""Mixing: how attention mixes values, as gains of the matrices that it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mixing:
    """α I + β A - γ C, with A the softmax of the scores and C the same at zero scores: `skip`, `gain` and `centre`.

    Where they are given, `bias` B [T, T] is added to the scores, and `rows` D [T] multiply the rows of A.
    """

    skip: float = 0.0
    gain: float = 1.0
    centre: float = 0.0
    bias: Any = None
    rows: Any = None
