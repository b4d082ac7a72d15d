"""The models of a space before a single step: a forecast of each variant, at the repetition of tokens in its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.data.corpus import corpus_of
from ablate.data.repetition import measure_repetition
from ablate.errors import InputError
from ablate.execute.task import cache_of
from ablate.plan.trial import Trial
from ablate.session.planning import PathLike, corpus_located, plan_space
from ablate.space.space import Space
from ablate.theory.models import Forecast, forecast


@dataclass(frozen=True, slots=True)
class ForecastOfSpace:
    """The forecast of each variant by its name, and of those without one the reason."""

    forecasts: Mapping[str, Forecast]
    refused: Mapping[str, str]


def forecast_space(space: Space, *, results: PathLike) -> ForecastOfSpace:
    """Forecast the model of each variant of a space; nothing is trained.

    How often tokens repeat is measured on the text of each, in windows of its length. Raises InputError and
    RefusedError as planning does; a model that is not forecast is no error, but has its reason.
    """
    plan = plan_space(space, results=results).plan
    one_of_each = {trial.variant: trial for trial in plan.trials}
    names = {variant.id: variant.name for variant in plan.variants}
    forecasts: dict[str, Forecast] = {}
    refused: dict[str, str] = {}
    for variant, trial in one_of_each.items():
        try:
            repetition = _repetition(space, trial, Path(results))
            forecasts[names[variant]] = forecast(trial.architecture, space.grammar.catalogue, repetition)
        except InputError as error:
            refused[names[variant]] = str(error).partition("\n")[0]
    return ForecastOfSpace(forecasts, refused)


def _repetition(space: Space, trial: Trial, results: Path) -> float | None:
    """Return how often two tokens of a sequence are the same in the text of a trial; None where there is no text."""
    catalogue = space.grammar.catalogue
    if corpus_of(trial.data, catalogue).layout(trial.data.corpus.settings) is not None:
        return None
    with corpus_located(space):
        length = trial.architecture.sizes.seq_len
        return measure_repetition(trial.data, space.folder, cache_of(results), length, catalogue).value
