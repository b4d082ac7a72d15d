"""Forecasts of the variants of a plan: each model once, over as many tokens of a sequence as there is time for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.data.corpus import corpus_of
from ablate.data.typical_windows import Windows, typical_windows
from ablate.errors import AblateError, InputError
from ablate.output.escape import visible
from ablate.output.words import listed, plural
from ablate.plan.forecast import KINDS, Forecast, ForecastStream
from ablate.plan.models import Models
from ablate.plan.plan import Plan, Variant
from ablate.plan.setting import Setting
from ablate.space.documents import Data
from ablate.space.space import Space

if TYPE_CHECKING:
    from ablate.theory.initial_state import InitialModel, InitialStream

QUICK: Mapping[int, int] = {12: 64, 48: 32, 1_000_000: 16}
"""The most tokens of a sequence that a quick forecast is over, by the number of layers up to which it is over so many:
it then takes less time than planning the variant, which also grows with the layers. Fewer tokens than 512 moved the
cosine at the end by at most 0.014 (e_spa, where attention decays with distance) and the ratio of gradients by at most
28 % (pre_ln of 24 layers), of pre_ln, post_ln, sas, op and e_spa at 12 layers, and of the first two at 24."""
KEPT = 256
"""The most tokens that the forecasts of a run are over, which are compared with what its trials measure."""
SEQUENCES = 4
"""Of how many typical windows of a text a forecast is the mean; a quick one is of one window."""
DIGITS = 6
"""Significant digits of a forecast: the last bits depend on the machine, and a kept plan must not."""


LONG = 40.0
"""From how many layers over `KEPT` tokens on forecasts are announced: about 0.1 s each on one core. The work of a layer
grows as the square of the tokens, and models of more than `STRIDES` layers go through them by strides."""
STRIDES = 128
"""The layers up to which a forecast takes longer the more there are."""


@dataclass(frozen=True)
class Forecaster:
    """Forecasts the variants of a space over its corpus; what is the same model at the same sizes is computed once.

    It is over at most `KEPT` tokens of a sequence, or if it is `quick`, over those of `QUICK`. What is `kept`, by a
    trial and its variant, is not computed again, except a refusal. `say` is told what takes more than seconds.
    """

    models: Models
    cache: Path
    quick: bool = False
    kept: Callable[[], Mapping[tuple[str, str], Forecast]] = field(default=dict, repr=False, compare=False)
    say: Callable[[str], None] | None = field(default=None, repr=False, compare=False)
    _asked: dict[tuple[Block, Setting], Forecast] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[Architecture, str], Forecast] = field(default_factory=dict, repr=False, compare=False)
    _windows: dict[tuple[str, int], Windows | None] = field(default_factory=dict, repr=False, compare=False)

    def of_plan(self, plan: Plan) -> Plan:
        """Return a plan with a forecast of each variant, or the reason why there is none."""
        known = self._kept_of(plan)
        self._announce(variant for variant in plan.variants if variant.id not in known)
        forecasts = ((each.id, known.get(each.id) or self.of_variant(each)) for each in plan.variants)
        return dataclasses.replace(plan, forecasts=tuple(forecasts))

    def made_of(self, plan: Plan) -> Plan:
        """Return a plan with those forecasts of its variants that are kept, or were asked for; none is made."""
        known = self._kept_of(plan)
        asked = ((each.id, known.get(each.id) or self._asked.get((each.block, each.setting))) for each in plan.variants)
        return dataclasses.replace(plan, forecasts=tuple((id, made) for id, made in asked if made is not None))

    @cached_property
    def _kept(self) -> Mapping[tuple[str, str], Forecast]:
        return self.kept()

    def _kept_of(self, plan: Plan) -> dict[str, Forecast]:
        """Return the forecasts of a plan's variants that are kept, by the variants' ids; no refusal."""
        kept = ((trial.variant, self._kept.get((trial.id, trial.variant))) for trial in plan.trials)
        return {variant: forecast for variant, forecast in kept if forecast is not None and not forecast.refused}

    def of_variant(self, variant: Variant) -> Forecast:
        """Forecast a variant. Nothing is raised for one that cannot be forecast: it is `refused`, with the reason."""
        return self.of(variant.block, variant.setting)

    def of(self, block: Block, setting: Setting) -> Forecast:
        """Forecast a block under a setting, as `of_variant` does."""
        if (block, setting) not in self._asked:
            try:
                made = self._forecast(self.models.architecture(block, setting), setting)
            except AblateError as error:
                made = Forecast(refused=reason(error))
            except Exception as error:  # noqa: BLE001  a component may raise anything, and no plan needs a forecast
                made = Forecast(refused=visible(f"its forecast failed: {type(error).__name__}: {_in_a_line(error)}"))
            self._asked[block, setting] = made
        return self._asked[block, setting]

    def _forecast(self, architecture: Architecture, setting: Setting) -> Forecast:
        if architecture.kind not in KINDS:  # known without loading the theory, and without reading the text
            return Forecast(refused=not_forecast(architecture.kind))
        known = architecture, self.models.text(setting.changes).fingerprint
        if known not in self._known:
            self._known[known] = self._computed(architecture, setting)
        return self._known[known]

    def _computed(self, architecture: Architecture, setting: Setting) -> Forecast:
        """Forecast a model over the tokens of a sequence that there is time for."""
        context = min(architecture.sizes.seq_len, self._most(architecture))
        shorter = dataclasses.replace(architecture, sizes=dataclasses.replace(architecture.sizes, seq_len=context))
        windows = self._windows_of(setting, context)
        return _forecast(shorter, self.models.space, windows, whole=context == architecture.sizes.seq_len)

    def _most(self, architecture: Architecture) -> int:
        """Return over how many tokens a model is forecast at most."""
        layers = architecture.sizes.n_layers
        return next(tokens for most, tokens in QUICK.items() if layers <= most) if self.quick else KEPT

    def _announce(self, variants: Iterable[Variant]) -> None:
        """Say that forecasts are made, where they take more than a few seconds."""
        if self.say is None:
            return
        new = {(v.block, v.setting) for v in variants if not v.setting.salt} - self._asked.keys()
        models = {model for each in new if (model := self._model(*each)) is not None}
        if sum(map(self._work, models)) >= LONG:
            self.say(f"forecasting {plural(len(models), 'model')} before the first step")

    def _model(self, block: Block, setting: Setting) -> Architecture | None:
        """Return a model that is to be forecast; None for one that will be refused."""
        try:
            model = self.models.architecture(block, setting)
        except Exception:  # noqa: BLE001  it is refused with its reason where it is forecast
            return None
        return model if model.kind in KINDS else None

    def _work(self, model: Architecture) -> float:
        """Return the work of a forecast in layers over `KEPT` tokens."""
        tokens = min(model.sizes.seq_len, self._most(model))
        return min(model.sizes.n_layers, STRIDES) * (tokens / KEPT) ** 2

    def _windows_of(self, setting: Setting, length: int) -> Windows | None:
        """Return typical windows of a variant's text; None where there is no text."""
        space = self.models.at(setting.changes)
        text = self.models.text(setting.changes).fingerprint, length
        if text not in self._windows:
            catalogue, count = space.grammar.catalogue, 1 if self.quick else SEQUENCES
            self._windows[text] = windows_of(space.data, space.folder, self.cache, length, count, catalogue)
        return self._windows[text]


def windows_of(data: Data, folder: Path, cache: Path, length: int, count: int, catalogue: Catalogue) -> Windows | None:
    """Return typical windows of a text, [count, length]; None for data that are no text.

    Raises RefusedError where the text is missing or too small.
    """
    if corpus_of(data, catalogue).layout(data.corpus.settings) is not None:
        return None
    return typical_windows(data, folder, cache, length, count, catalogue)


def forecast_on(architecture: Architecture, catalogue: Catalogue, windows: Windows | None) -> InitialModel:
    """Forecast a model that reads windows of a text, or without a text tokens that repeat by Zipf's law."""
    from ablate.theory.models import forecast
    from ablate.theory.sequences import forecast_sequences

    return (
        forecast(architecture, catalogue) if windows is None else forecast_sequences(architecture, catalogue, windows)
    )


def not_forecast(kind: str) -> str:
    """Return why a model of a kind that has no forecast has none, and the way out."""
    return f"a model of kind {kind} is not forecast; choose one of kind {' or '.join(KINDS)}"


def reason(error: AblateError) -> str:
    """Return what an error says in one line, with its way out."""
    return listed(["; ".join([each.message, *each.way_out]).strip() for each in error.mistakes])


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _forecast(architecture: Architecture, space: Space, windows: Windows | None, *, whole: bool) -> Forecast:
    from ablate.theory.dangers import danger_of_refusal, dangers

    try:
        model = forecast_on(architecture, space.grammar.catalogue, windows)
    except InputError as error:
        if (danger := danger_of_refusal(error)) is None:
            raise
        return Forecast(refused=reason(error), kinds=(danger.kind,))
    warned = dangers(model)
    streams = tuple(map(_stream, model.streams))
    first, last = streams[0], streams[-1]
    return Forecast(
        growth=_rounded(math.sqrt(model.growth)),
        cosine=last.cosine,
        gradient=first.gradient,
        logits=_rounded(math.sqrt(model.logits)),
        context=architecture.sizes.seq_len,
        whole=whole,
        repetition=_rounded(model.repetition),
        streams=streams,
        dangers=tuple(map(str, warned)),
        kinds=tuple(dict.fromkeys(danger.kind for danger in warned)),
    )


def _stream(stream: InitialStream) -> ForecastStream:
    size, cosine, gradient = map(_rounded, stream.shown())
    ends = [(_rounded(low), _rounded(high)) for low, high in stream.intervals() or ()]
    return ForecastStream(stream.layer, size, cosine, gradient, *ends)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
