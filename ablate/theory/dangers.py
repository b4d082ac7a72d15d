"""Dangers: what in a forecast is a reason not to train the model as it is, each with its number and its layer."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, sqrt

from ablate.theory.initial_state import InitialModel

COLLAPSED = 0.99
"""A mean cosine from which the tokens of a sequence are nearly one: attention has nothing left to tell apart."""
GRADIENTS = 100.0
"""How many times larger a gradient may be at one end of the model than at the other, as a root mean square."""
SIZES = 1000.0
"""How many times larger a stream may be at one end of the model than at the other, as a root mean square."""


def dangers(forecast: InitialModel) -> tuple[str, ...]:
    """Return a sentence for each danger, in the order in which a signal meets them; none if there is none."""
    return tuple(_dangers(forecast))


def collapse_layer(forecast: InitialModel) -> int | None:
    """Return the first layer behind which tokens are nearly one, from which on they stay so; None if there is none."""
    collapsed = [stream.correlation > COLLAPSED for stream in forecast.streams]
    if not collapsed[-1]:
        return None
    return len(collapsed) - next(n for n, each in enumerate([*reversed(collapsed), False]) if not each)


def _dangers(forecast: InitialModel) -> Iterator[str]:
    numbers = [(stream.layer, stream.mean_square, stream.gradient) for stream in forecast.streams]
    if overflown := [layer for layer, *values in numbers if not all(map(isfinite, values))]:
        yield f"numbers are no longer finite at layer {overflown[0]}: the stream or its gradient overflows"
        return
    layer = collapse_layer(forecast)
    if layer is not None:
        where = f"from layer {layer} on" if layer else "from the embedding on"
        yield (
            f"rank collapse: {where} the tokens of a sequence are nearly one (mean cosine above {COLLAPSED:g}; "
            f"{forecast.streams[-1].correlation:.4f} at the end)"
        )
    growth = sqrt(forecast.growth)
    if not 1 / SIZES <= growth <= SIZES:
        yield f"the stream {'grows' if growth > 1 else 'shrinks'} by a factor of {_factor(growth)} through the layers"
    reached = sqrt(forecast.gradient_ratio)
    if reached > GRADIENTS:
        yield f"exploding gradient: {_factor(reached)} times as large in front of the first layer as behind the last"
    elif reached < 1 / GRADIENTS:
        yield f"vanishing gradient: {_factor(reached)} times smaller in front of the first layer than behind the last"


def _factor(ratio: float) -> str:
    """Return a ratio, or its inverse if it is below 1, in three digits.

    >>> _factor(0.001), _factor(12345.0)
    ('1,000', '12,300')
    """
    if ratio == 0:
        return "infinitely many"
    larger = max(ratio, 1 / ratio)
    return f"{larger:.3g}" if larger < 1000 or larger >= 1e6 else f"{float(f'{larger:.3g}'):,.0f}"
