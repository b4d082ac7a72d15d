"""Mixing: how attention mixes values, as gains of the matrices that it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mixing:
    """α I + β A - γ C, with A the softmax of the scores and C the same at zero scores: `skip`, `gain` and `centre`.

    `prescribed` P [T, T], where it is given, is what A is to be at zero scores: A = D softmax(s + B), with the row sums
    D and B = log(D⁻¹ P).
    """

    skip: float = 0.0
    gain: float = 1.0
    centre: float = 0.0
    prescribed: Any = None
