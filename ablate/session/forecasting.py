"""The models of a space before a single step: a forecast of each variant, at the repetition of tokens in its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.data.corpus import corpus_of
from ablate.data.repetition import measure_repetition
from ablate.errors import InputError
from ablate.execute.task import cache_of
from ablate.plan.trial import Trial
from ablate.session.planning import PathLike, corpus_located, plan_space
from ablate.space.space import Space
from ablate.theory.models import forecast
from ablate.theory.starts import ModelAtStart

SEQUENCES = 8
"""The sequences that pass through a start that is drawn."""


@dataclass(frozen=True, slots=True)
class ForecastOfSpace:
    """The forecast of each variant by its name, of those without one the reason, and starts that were drawn."""

    forecasts: Mapping[str, ModelAtStart]
    refused: Mapping[str, str]
    drawn: Mapping[str, tuple[ModelAtStart, ...]]


def forecast_space(space: Space, *, results: PathLike, drawn: int = 0) -> ForecastOfSpace:
    """Forecast the model of each variant of a space; nothing is trained.

    Of each that is forecast, `drawn` starts are drawn too, which read text of the training split.

    How often tokens repeat is measured on the text of each, in windows of its length. Raises InputError and
    RefusedError as planning does; a model that is not forecast is no error, but has its reason.
    """
    plan = plan_space(space, results=results).plan
    one_of_each = {trial.variant: trial for trial in plan.trials}
    names = {variant.id: variant.name for variant in plan.variants}
    forecasts: dict[str, ModelAtStart] = {}
    refused: dict[str, str] = {}
    starts: dict[str, tuple[ModelAtStart, ...]] = {}
    for variant, trial in one_of_each.items():
        try:
            repetition = _repetition(space, trial, Path(results))
            forecasts[names[variant]] = forecast(trial.architecture, space.grammar.catalogue, repetition)
        except InputError as error:
            refused[names[variant]] = str(error).partition("\n")[0]
            continue
        starts[names[variant]] = tuple(_drawn(space, trial, Path(results), seed) for seed in range(drawn))
    return ForecastOfSpace(forecasts, refused, starts if drawn else {})


def drawn_of_block(architecture: Architecture, catalogue: Catalogue, drawn: int) -> tuple[ModelAtStart, ...]:
    """Draw starts of a model that is not of a space; its tokens are as many as repeat as often as its sizes say."""
    import torch

    from ablate.execute.drawn_start import drawn_start

    sizes = architecture.sizes
    different = sizes.vocab_size if not sizes.repetition else min(round(1 / sizes.repetition), sizes.vocab_size)
    return tuple(
        drawn_start(
            architecture,
            catalogue,
            torch.randint(different, (SEQUENCES, sizes.seq_len), generator=torch.Generator().manual_seed(seed)),
            seed=seed,
        )
        for seed in range(drawn)
    )


def _drawn(space: Space, trial: Trial, results: Path, seed: int) -> ModelAtStart:
    """Draw a start of the model of a trial, and pass windows of its text through it."""
    from ablate.data.batch import first
    from ablate.data.batches import Batches
    from ablate.data.streams import prepare
    from ablate.execute.drawn_start import drawn_start

    catalogue, sizes = space.grammar.catalogue, trial.architecture.sizes
    with corpus_located(space):
        stream = prepare(trial.data, space.folder, cache_of(results), catalogue).train
        tokens = first(Batches(stream, sizes.seq_len, SEQUENCES, seed).at(0).inputs)
    return drawn_start(trial.architecture, catalogue, tokens, seed=seed)


def _repetition(space: Space, trial: Trial, results: Path) -> float | None:
    """Return how often two tokens of a sequence are the same in the text of a trial; None where there is no text."""
    catalogue = space.grammar.catalogue
    if corpus_of(trial.data, catalogue).layout(trial.data.corpus.settings) is not None:
        return None
    with corpus_located(space):
        length = trial.architecture.sizes.seq_len
        return measure_repetition(trial.data, space.folder, cache_of(results), length, catalogue).value
