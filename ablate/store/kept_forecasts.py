"""The forecasts that a results folder keeps of a plan's variants, read without a lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.plan.forecast import Forecast, ForecastStream
from ablate.plan.plan import Plan
from ablate.store import checksummed_lines, ledger
from ablate.store.verdicts import number

NOT_KEPT = "the plan was kept without: by an earlier version, or by a search that has not ended"
"""Why a variant has no forecast in a plan that was kept without one of it."""


def kept_forecasts(folder: Path, space: str) -> dict[tuple[str, str], Forecast]:
    """Read the forecasts of a space's plans, by a trial and its variant; where there are several, the latest.

    A trial's id holds the model, its sizes and the text, so that a variant with the same trial has the same forecast.
    """
    kept = ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS))
    forecasts: dict[tuple[str, str], Forecast] = {}
    for _, document in kept.every(space).values() if space in kept.plans else ():
        made = {each["id"]: forecast_of(each["forecast"]) for each in document["variants"] if "forecast" in each}
        forecasts.update(
            {(trial, variant): made[variant] for trial, variant, _ in document["trials"] if variant in made}
        )
    return forecasts


def with_kept_forecasts(plan: Plan, folder: Path) -> Plan:
    """Return a plan with the forecasts that the folder keeps of its variants, and where it keeps none, that reason."""
    kept, none = kept_forecasts(folder, plan.space), Forecast(refused=NOT_KEPT)
    made = {trial.variant: kept[trial.id, trial.variant] for trial in plan.trials if (trial.id, trial.variant) in kept}
    return replace(plan, forecasts=tuple((variant.id, made.get(variant.id, none)) for variant in plan.variants))


def forecast_of(kept: Mapping[str, Any]) -> Forecast:
    """Return the forecast that a plan's document has of a variant."""
    numbers = {name: number(kept[name]) for name in ("growth", "cosine", "gradient", "logits", "repetition")}
    return Forecast(
        **numbers,
        context=kept["context"],
        whole=kept["whole"],
        streams=tuple(_stream(stream) for stream in kept["streams"]),
        dangers=tuple(kept["dangers"]),
        refused=kept["refused"],
    )


def _stream(kept: Mapping[str, Any]) -> ForecastStream:
    numbers = {name: number(kept[name]) for name in ("size", "cosine", "gradient")}
    return ForecastStream(layer=kept["layer"], **numbers)
