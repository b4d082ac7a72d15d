"""What a plan says of its models before a step: columns, dangers, reasons, definitions."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from report_fixtures import path
from test_report_tables import GOLDEN, render

from ablate.plan.plan import Forecast, ForecastStream
from ablate.report.forecasts import WITHIN, definitions, warnings
from ablate.report.json_form import plan_to_json
from ablate.report.screens.plan import plan_screen

pytestmark = pytest.mark.fast

COLLAPSES = "rank collapse: from layer 7 on the tokens of a sequence are nearly one"


def made(cosine: float, gradient: float, *dangers: str, whole: bool = True) -> Forecast:
    return Forecast(growth=1.5, cosine=cosine, gradient=gradient, context=64, whole=whole, dangers=dangers)


FORECASTS = (
    made(0.53591, 5.4104),
    made(0.99999, 123.4, COLLAPSES),
    made(0.99998, math.inf, COLLAPSES, "numbers are no longer finite at layer 3"),
    Forecast(refused="transformer_xl is forecast where u and v start at 0"),
)


def forecast(*forecasts: Forecast):
    plan = path("a", "b", "c", question="Which of them trains?", seeds=2)
    assert len(plan.variants) == len(forecasts)
    return replace(plan, forecasts=tuple(zip((v.id for v in plan.variants), forecasts, strict=True)))


@pytest.mark.parametrize("width", [80, 100])
def test_plan_with_forecasts(width, golden):
    shorter = forecast(*(replace(each, whole=False) for each in FORECASTS))
    screens = [plan_screen(plan, ()) for plan in (forecast(*FORECASTS), shorter)]
    golden(GOLDEN / f"plan_forecast_{width}.txt", "\n".join(render(each, width) for each in screens))


def test_a_danger_is_told_once_with_all_of_its_variants():
    plan = forecast(*FORECASTS)
    text = " ".join(render(plan_screen(plan, ()), 200).split())
    both = f"{plan.variants[1].name} and {plan.variants[2].name}"
    assert text.count(COLLAPSES) == 1 and f"forecast of {both}: {COLLAPSES}" in text
    assert f"no forecast of {plan.variants[3].name}: transformer_xl is forecast" in text


def test_where_nothing_is_forecast_there_are_no_columns_but_a_reason():
    text = render(plan_screen(forecast(*(Forecast(refused="a model of kind vit is not forecast"),) * 4), ()), 200)
    assert "cosine" not in text and "gradient" not in text
    assert text.count("no forecast of any variant: a model of kind vit is not forecast") == 1


def test_without_forecasts_nothing_is_said_of_them():
    assert "cosine" not in (text := render(plan_screen(path("a"), ()), 200)) and "forecast" not in text


def test_what_was_told_before_is_not_told_again():
    plan = forecast(*FORECASTS)
    again = render(plan_screen(plan, (), told=(f"forecast of {plan.variants[1].name} and {plan.variants[2].name}: "
                                               f"{COLLAPSES}",)), 200)  # fmt: skip
    assert COLLAPSES not in again and "numbers are no longer finite" in again


def test_json_has_every_number_and_every_reason():
    document = json.loads(plan_to_json(forecast(*FORECASTS), ()))
    numbers = [variant["forecast"] for variant in document["variants"]]
    assert [each["cosine"] for each in numbers] == [0.53591, 0.99999, 0.99998, None]
    assert numbers[2]["gradient"] is None and numbers[2]["dangers"][1].startswith("numbers are no longer finite")
    assert (
        numbers[3]["refused"].startswith("transformer_xl")
        and "forecast" not in json.loads(plan_to_json(path("a"), ()))["variants"][0]
    )


def test_one_danger_with_other_numbers_is_told_once_with_the_numbers_of_each_variant():
    explodes = "exploding gradient: {} times as large in front of the first layer as behind the last"
    collapses = "rank collapse: from layer {} on tokens are nearly one (mean cosine above 0.99; {} at the end)"
    plan = forecast(
        made(0.5, 4.6e8, explodes.format("4.6e+08")),
        made(0.5, 1200.0, explodes.format("1,200"), collapses.format(7, 0.9993)),
        made(0.5, 1.0, collapses.format(9, 0.9991)),
        made(0.5, 1.0, "rank collapse: from the embedding on tokens are nearly one"),
    )
    a, b, c, d = (variant.name for variant in plan.variants)
    assert list(warnings(plan)) == [
        f"forecast of {a} (4.6e+08) and {b} (1,200): {explodes.format('…')}",
        f"forecast of {b} (7; 0.9993) and {c} (9; 0.9991): {collapses.format('…', '…')}",
        f"forecast of {d}: rank collapse: from the embedding on tokens are nearly one",
    ]


def test_forecasts_of_variants_that_a_plan_does_not_have_are_left_out():
    plan = forecast(*FORECASTS)
    fewer = replace(plan, variants=plan.variants[:1])
    assert list(warnings(fewer)) == [] and len(list(warnings(plan))) == 3


def test_of_fewer_tokens_the_screen_says_that_ablate_forecast_has_other_numbers():
    plan = forecast(*(replace(each, whole=False) for each in FORECASTS))
    text = " ".join(definitions(plan))
    assert f"these are not the numbers of `ablate forecast {plan.space}`, over all" in text
    assert "these are not" not in " ".join(definitions(forecast(*FORECASTS)))


def test_intervals_stand_below_their_numbers_and_are_defined_where_there_are_some():
    made = Forecast(
        cosine=0.536,
        gradient=5.0,
        growth=1.0,
        streams=(
            ForecastStream(0, 1.0, 0.1, 5.0, (0.9, 1.1), (0.0, 0.2), (2.5, 10.0)),
            ForecastStream(1, 2.0, 0.536, 1.0, (1.0, 4.0), (0.486, 0.586), (1.0, 1.0)),
        ),
    )
    assert made.growth_interval == (0.5, 2.0)
    plan = forecast(made, *FORECASTS[1:])
    lines = render(plan_screen(plan, ()), 80).splitlines()
    assert any(".486–.586" in line and "×÷2.0" in line for line in lines) and max(map(len, lines)) <= 80
    assert WITHIN in list(definitions(plan)) and WITHIN not in list(definitions(forecast(*FORECASTS)))
