"""The forecasts that a results folder keeps of a plan's variants, read without a lock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from ablate.plan.forecast import THEORY, Forecast
from ablate.plan.plan import Plan
from ablate.store.documents import PlanDocument, VariantDocument
from ablate.store.serialise import digest, plan_id
from ablate.store.snapshot import Snapshot

NOT_KEPT = "the plan was kept without: by an earlier version, or by a search that has not ended"
"""Why a variant has no forecast in a plan that was kept without one of it."""

FORECAST = TypeAdapter(Forecast)


def reusable_forecasts(folder: Path, space: str, resolved: object) -> dict[tuple[str, str], Forecast]:
    """Read the forecasts that a plan need not make, by a trial and its variant.

    Those of other plans are left out where another version of the theory made them. Those that were kept with the plan
    itself, which asks for the same `resolved` space, stay what was forecast when it was first run: its rows are not
    overwritten.
    """
    plan = plan_id(space, asked=digest(resolved))
    every = Snapshot(folder).plans.of_space.get(space, ())
    forecasts: dict[tuple[str, str], Forecast] = {}
    for kept in every:
        forecasts.update((of, made) for of, made in _forecasts(kept.document) if made.theory == THEORY)
    for kept in every:
        forecasts.update(_forecasts(kept.document) if kept.id == plan else ())
    return forecasts


def kept_forecasts(folder: Path, space: str) -> dict[tuple[str, str], Forecast]:
    """Read the forecasts of a space's plans, by a trial and its variant; where there are several, the latest.

    A trial's id holds the model, its sizes and the text, so that a variant with the same trial has the same forecast.
    """
    forecasts: dict[tuple[str, str], Forecast] = {}
    for kept in Snapshot(folder).plans.of_space.get(space, ()):
        forecasts.update(_forecasts(kept.document))
    return forecasts


def _forecasts(document: PlanDocument) -> Iterator[tuple[tuple[str, str], Forecast]]:
    made = {each["id"]: forecast_of(each) for each in document["variants"] if "forecast" in each}
    yield from (((trial, variant), made[variant]) for trial, variant, _ in document["trials"] if variant in made)


def with_kept_forecasts(plan: Plan, folder: Path) -> Plan:
    """Return a plan with the forecasts that the folder keeps of its variants, and where it keeps none, that reason."""
    kept, none = kept_forecasts(folder, plan.space), Forecast(refused=NOT_KEPT)
    made = {trial.variant: kept[trial.id, trial.variant] for trial in plan.trials if (trial.id, trial.variant) in kept}
    return replace(plan, forecasts=tuple((variant.id, made.get(variant.id, none)) for variant in plan.variants))


def forecast_of(variant: VariantDocument) -> Forecast:
    """Return the forecast that a plan's document has of a variant; one without a version of the theory is of 1."""
    if "forecast" not in variant:
        return Forecast(refused=NOT_KEPT)
    return FORECAST.validate_python({"theory": 1, **variant["forecast"]})
