"""What the models of a plan will do before a single step, in words."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from ablate.output.words import listed
from ablate.plan.forecast import DEFINITIONS
from ablate.plan.plan import Plan


def number(value: float | None) -> str:
    """Return a number of a forecast in three digits; - for none."""
    return "-" if value is None or isnan(value) else f"{value:.3g}"


def warnings(plan: Plan) -> Iterator[str]:
    """Yield the dangers that variants are in, and why others are not forecast; each text once, with its variants."""
    names = {variant.id: variant.name for variant in plan.variants}
    in_danger: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    for id, forecast in plan.forecasts:
        for danger in forecast.dangers:
            in_danger.setdefault(danger, []).append(names[id])
        if forecast.refused:
            refused.setdefault(forecast.refused, []).append(names[id])
    for danger, of in in_danger.items():
        yield f"forecast of {listed(of)}: {danger}"
    for reason, of in refused.items():
        yield f"no forecast of {'any variant' if len(of) == len(plan.variants) else listed(of)}: {reason}"


def definitions(plan: Plan) -> Iterator[str]:
    """Yield what the columns of a forecast are, and of which part of a sequence; nothing where there is none."""
    made = [forecast for _, forecast in plan.forecasts if not forecast.refused]
    if not made:
        return
    yield (
        f"forecast before a single step, of random weights in the limit of width, without an interval: cosine: "
        f"{DEFINITIONS['cosine']}; gradient: {DEFINITIONS['gradient']}"
    )
    if shorter := {forecast.context or 0 for forecast in made if not forecast.whole}:
        tokens = listed([f"{context}" for context in sorted(shorter)])
        command = f"`ablate forecast {plan.space}` is over all"
        yield f"forecasts are over the first {tokens} tokens of a sequence, so that planning stays quick: {command}"
