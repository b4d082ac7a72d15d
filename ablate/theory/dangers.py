"""Dangers: what in a forecast is a reason not to train the model as it is, each with its number and its layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, sqrt

from ablate.errors import InputError
from ablate.signal.attention_kernel import LARGEST, ScoresOverflow
from ablate.theory.initial_state import InitialModel

COLLAPSED = 0.99
"""A mean cosine from which the tokens of a sequence are nearly one: attention has nothing left to tell apart."""
GRADIENTS = 100.0
"""How many times larger a gradient may be at one end of the model than at the other, as a root mean square."""
SIZES = 1000.0
"""How many times larger a stream may be at one end of the model than at the other, as a root mean square."""
SILENT = 1e-9
"""The largest share of the stream that a layer may have written where it counts as having written nothing."""
OVERFLOW = "numbers are no longer finite"
"""The kind of danger of what overflows, in the stream or in the scores of attention."""
OF_REFUSALS: Mapping[type[InputError], str] = {ScoresOverflow: OVERFLOW}
"""The kinds of danger that a model is in because of which it is not forecast."""


@dataclass(frozen=True, slots=True)
class Danger:
    """A reason not to train a model as it is: its `kind`, and a sentence with the model's numbers."""

    kind: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def dangers(forecast: InitialModel) -> tuple[Danger, ...]:
    """Return the dangers in a forecast, in the order in which a signal meets them; none if there is none."""
    return tuple(_dangers(forecast))


def danger_of_refusal(error: InputError) -> Danger | None:
    """Return the danger because of which a model is not forecast; None if that is no danger of the model.

    >>> danger_of_refusal(ScoresOverflow("attention overflows\\n  = give queries a norm")).kind
    'numbers are no longer finite'
    """
    kind = OF_REFUSALS.get(type(error))
    return None if kind is None else Danger(kind, error.mistakes[0].message)


def collapse_layer(forecast: InitialModel) -> int | None:
    """Return the first layer behind which tokens are nearly one, from which on they stay so; None if there is none."""
    collapsed = [stream.correlation > COLLAPSED for stream in forecast.streams]
    if not collapsed[-1]:
        return None
    return len(collapsed) - next(n for n, each in enumerate([*reversed(collapsed), False]) if not each)


def silence(forecast: InitialModel) -> tuple[str, ...]:
    """Return a sentence where no layer writes anything to the stream before a step; none where one does.

    It is no danger: such a model may train well, but a forecast cannot tell it from others of its skips.
    """
    if not forecast.fresh or max(forecast.fresh) > SILENT or not all(isfinite(share) for share in forecast.fresh):
        return ()
    return (
        "no layer adds anything to the stream before the first step, as every branch starts at 0: this start says "
        "nothing of the block",
    )


def _dangers(forecast: InitialModel) -> Iterator[Danger]:
    numbers = [(stream.layer, stream.mean_square, stream.gradient) for stream in forecast.streams]
    if overflown := [layer for layer, *values in numbers if not all(map(isfinite, values))]:
        yield Danger(OVERFLOW, f"{OVERFLOW} at layer {overflown[0]}: the stream or its gradient overflows")
        return
    layer = collapse_layer(forecast)
    if layer is not None:
        where = f"from layer {layer} on" if layer else "from the embedding on"
        yield Danger(
            "rank collapse",
            f"rank collapse: {where} the tokens of a sequence are nearly one (mean cosine above {COLLAPSED:g}; "
            f"{forecast.streams[-1].correlation:.4f} at the end)",
        )
    growth = sqrt(forecast.growth)
    if growth < 1 / SIZES or growth > SIZES:
        kind = f"the stream {'grows' if growth > 1 else 'shrinks'}"
        by = f"by a factor of {_factor(growth)} through the layers" if growth else "to zero through the layers"
        yield Danger(kind, f"{kind} {by}")
    if (reached := sqrt(forecast.gradient_ratio)) > GRADIENTS:
        kind, how = "exploding gradient", f"{_factor(reached)} times as large in front of the first layer as behind"
        yield Danger(kind, f"{kind}: {how} the last")
    elif reached < 1 / GRADIENTS:
        kind, how = "vanishing gradient", "zero in front of the first layer, and not behind"
        if reached:
            how = f"{_factor(reached)} times smaller in front of the first layer than behind"
        yield Danger(kind, f"{kind}: {how} the last")
    if sharp := [attention for attention in forecast.attention if attention.largest_variance > LARGEST]:
        kind = "attention nearly one-hot"
        first, largest = sharp[0].layer, sqrt(max(attention.largest_variance for attention in sharp))
        where = "" if first is None else f", first in layer {first}"
        yield Danger(
            kind, f"{kind}{where}: its scores have a standard deviation of up to {largest:.3g}, above {sqrt(LARGEST):g}"
        )


def _factor(ratio: float) -> str:
    """Return a ratio > 0, or its inverse if it is below 1, in three digits.

    >>> _factor(0.001), _factor(12345.0)
    ('1,000', '12,300')
    """
    larger = max(ratio, 1 / ratio)
    return f"{larger:.3g}" if larger < 1000 or larger >= 1e6 else f"{float(f'{larger:.3g}'):,.0f}"
