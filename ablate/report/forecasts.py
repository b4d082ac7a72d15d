"""The models of a plan before a single step, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isfinite, isnan

from ablate.output.words import listed
from ablate.plan.plan import FORECAST_DEFINITIONS, Interval, Plan

NUMBER = re.compile(r"\d[\d.,e+-]*\d|\d")  # a number in the sentence of a danger, such as 7, 0.9993, 1,200 or 4.6e+08
GAP = "…"
MOST = 0.5  # an interval that is wider than this share of its number is written as a factor
WITHIN = (
    "± after a forecast, ×÷ where it is wide, or the two ends of a cosine's: 95 % of networks of this width lie "
    "within: twice the standard deviation that drawing weights makes, to first order in 1/d, and that forecasts of "
    "many blocks missed besides"
)


def number(value: float | None) -> str:
    return "-" if value is None or isnan(value) else f"{value:.3g}"


def plus_minus(value: float, high: float) -> str:
    """Return the interval about a size from its upper end: in per cent, or as a factor.

    >>> plus_minus(2.0, 2.1), plus_minus(2.0, 5.2)
    ('± 5%', '×÷2.6')
    """
    return f"± {high / value - 1:.0%}" if high / value - 1 < MOST else f"×÷{high / value:#.2g}"


def ends_in_words(low: float, high: float) -> str:
    """Return the interval of a cosine by its ends, short as it is a column.

    >>> ends_in_words(0.0331, 0.0732), ends_in_words(-0.0061, 1.0)
    ('.033–.073', '-.006–1.00')
    """
    return f"{_short(low)}–{_short(high)}"


def _short(cosine: float) -> str:
    return f"{cosine:z.3f}".replace("0.", ".", 1).replace("1.000", "1.00")


def with_interval(value: float | None, ends: Interval | None, *, relative: bool, between: str = "\n") -> str:
    if value is None or ends is None or not (isfinite(value) and all(map(isfinite, ends))) or (relative and not value):
        return number(value)
    return f"{number(value)}{between}{plus_minus(value, ends[1]) if relative else ends_in_words(*ends)}"


def warnings(plan: Plan) -> Iterator[str]:
    """Yield the dangers that variants are in, and why others are not forecast; each text once, with its variants.

    Where the same danger has other numbers from variant to variant, these stand behind its name, and … in the text.
    """
    forecasts = dict(plan.forecasts)
    in_danger: dict[str, list[tuple[str, str]]] = {}
    refused: dict[str, list[str]] = {}
    for variant in plan.variants:
        if (forecast := forecasts.get(variant.id)) is None:
            continue
        for danger in forecast.dangers:
            in_danger.setdefault(NUMBER.sub(GAP, danger), []).append((variant.name, danger))
        if forecast.refused:
            refused.setdefault(forecast.refused, []).append(variant.name)
    for told in in_danger.values():
        yield _told(told)
    for reason, of in refused.items():
        yield f"no forecast of {'any variant' if len(of) == len(plan.variants) else listed(of)}: {reason}"


def _told(told: Sequence[tuple[str, str]]) -> str:
    words = [danger.split(" ") for _, danger in told]
    differ = [len(set(column)) > 1 for column in zip(*words, strict=True)]
    text = " ".join(NUMBER.sub(GAP, word) if gap else word for word, gap in zip(words[0], differ, strict=True))
    numbers = [
        "; ".join(NUMBER.findall(word)[0] for word, gap in zip(each, differ, strict=True) if gap) for each in words
    ]
    names = [f"{name} ({own})" if own else name for (name, _), own in zip(told, numbers, strict=True)]
    return f"forecast of {listed(names)}: {text}"


def definitions(plan: Plan) -> Iterator[str]:
    made = [forecast for _, forecast in plan.forecasts if not forecast.refused]
    if not made:
        return
    yield (
        "forecast before a single step, of random weights in the limit of width: cosine: "
        f"{FORECAST_DEFINITIONS['cosine']}; "
        f"gradient: {FORECAST_DEFINITIONS['gradient']}"
    )
    if any(forecast.cosine_interval is not None for forecast in made):
        yield WITHIN
    quick = [forecast for forecast in made if forecast.quick]
    shorter = {forecast.context or 0 for forecast in quick or made if not forecast.whole}
    tokens = f"the first {listed(list(map(str, sorted(shorter))))} tokens of a sequence" if shorter else ""
    if quick:
        over = f"{tokens}, of one window" if tokens else "one window of the text"
        yield (
            f"forecasts are over {over}, so that planning stays quick: `ablate run` makes those of four windows of up "
            "to 256 tokens, which are shown here from then on, and "
            f"`ablate forecast {plan.space}` those of whole windows"
        )
    elif tokens:
        yield f"forecasts are over {tokens}: these are not the numbers of `ablate forecast {plan.space}`, over all"
