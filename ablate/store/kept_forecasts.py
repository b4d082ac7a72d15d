"""The forecasts that a results folder keeps of a plan's variants, read without a lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.plan.forecast import THEORY, Forecast, ForecastStream, Interval
from ablate.plan.plan import Plan
from ablate.store import checksummed_lines, ledger
from ablate.store.serialise import digest, plan_id
from ablate.store.verdicts import number

NOT_KEPT = "the plan was kept without: by an earlier version, or by a search that has not ended"
"""Why a variant has no forecast in a plan that was kept without one of it."""


def reusable_forecasts(folder: Path, space: str, resolved: Any) -> dict[tuple[str, str], Forecast]:
    """Read the forecasts that a plan need not make, by a trial and its variant.

    Those of other plans are left out where another version of the theory made them. Those that were kept with the plan
    itself, which asks for the same `resolved` space, stay what was forecast when it was first run: its rows are not
    overwritten.
    """
    plan = plan_id(space, asked=digest(resolved))
    kept = ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS))
    every = kept.every(space) if space in kept.plans else {}
    forecasts: dict[tuple[str, str], Forecast] = {}
    for _, document in every.values():
        forecasts.update((of, made) for of, made in _forecasts(document) if made.theory == THEORY)
    if plan in every:
        forecasts.update(_forecasts(every[plan][1]))
    return forecasts


def kept_forecasts(folder: Path, space: str) -> dict[tuple[str, str], Forecast]:
    """Read the forecasts of a space's plans, by a trial and its variant; where there are several, the latest.

    A trial's id holds the model, its sizes and the text, so that a variant with the same trial has the same forecast.
    """
    kept = ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS))
    forecasts: dict[tuple[str, str], Forecast] = {}
    for _, document in kept.every(space).values() if space in kept.plans else ():
        forecasts.update(_forecasts(document))
    return forecasts


def _forecasts(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Forecast]]:
    """Yield the forecasts of a plan's document, with a trial and its variant."""
    made = {each["id"]: forecast_of(each["forecast"]) for each in document["variants"] if "forecast" in each}
    yield from (((trial, variant), made[variant]) for trial, variant, _ in document["trials"] if variant in made)


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
        theory=kept.get("theory", 1),
    )


def _stream(kept: Mapping[str, Any]) -> ForecastStream:
    numbers = {name: number(kept[name]) for name in ("size", "cosine", "gradient")}
    return ForecastStream(
        layer=kept["layer"],
        **numbers,
        size_interval=_interval(kept.get("size_interval")),
        cosine_interval=_interval(kept.get("cosine_interval")),
        gradient_interval=_interval(kept.get("gradient_interval")),
    )


def _interval(kept: Sequence[Any] | None) -> Interval | None:
    return None if kept is None else (number(kept[0]), number(kept[1]))
