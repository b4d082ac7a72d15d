"""Inverted weights: whether a weight starts as the inverse of another one beside it, which it then undoes."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from ablate.block.sizes import PartMaker
from ablate.errors import InputError

if TYPE_CHECKING:
    from ablate.signal.propagation import Signal


def undoes(weight: Any) -> str | None:
    """The field of the weight that `weight`, a maker, inverts in this layer; None if it inverts none."""
    config = getattr(weight, "config", None)
    if config is None:
        return None
    found: str | None = getattr(config, "undoes", None)
    if found is not None:
        return found
    inside = (getattr(config, field.name) for field in fields(config))
    return next((name for each in inside if isinstance(each, PartMaker) and (name := undoes(each))), None)


def refuse_inverted(**weights: Any) -> None:
    """Raise InputError for a weight that inverts another where a forecast does not follow it."""
    for name, weight in weights.items():
        if (of := undoes(weight)) is not None:
            raise InputError(
                f"a forecast does not follow a {name} that starts as the inverse of {of}\n"
                "  = only a projection that inverts value, or down that inverts up, is followed"
            )


def turned_back(x: Signal, behind: Signal) -> Signal:
    """The signal `behind` a weight that is undone later: as like the input x as before it, but for its scale."""
    import numpy as np

    from ablate.signal.propagation import transferred

    scale = (behind.mean_square / x.mean_square) ** 0.5 if x.mean_square else 0.0
    return replace(behind, transfer=transferred(np.full(len(x.mean), scale), x.transfer))
