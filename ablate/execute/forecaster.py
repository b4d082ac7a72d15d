"""Forecaster: the variants of a plan before a single step: each model once, over as many tokens as time allows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.data.corpus import corpus_of
from ablate.data.corpus_statistics import Windows, measure_inputs, measure_repetition, measure_targets, typical_windows
from ablate.errors import AblateError, InputError
from ablate.output.escape import visible
from ablate.output.words import listed, plural
from ablate.plan.models import Models
from ablate.plan.plan import FORECAST_KINDS, Forecast, ForecastStream, Plan, Setting
from ablate.space.data import Data
from ablate.space.space import Space

if TYPE_CHECKING:
    from ablate.theory.initial_state import InitialModel, InitialStream

QUICK: Mapping[int, int] = {12: 64, 48: 32, 1_000_000: 16}
"""The most tokens of a sequence in a quick forecast, by the number of layers up to which it has so many: it then takes
less time than planning the variant. Fewer than 512 moved the cosine at the end by at most 0.014 (e_spa) and the ratio
of gradients by at most 28 % (pre_ln of 24 layers), of pre_ln, post_ln, sas, op and e_spa at 12 layers, and of the first
two at 24."""
KEPT = 256  # the most tokens in the forecasts of a run, which are compared with what its trials measure
DIGITS = 6  # significant digits of a forecast: the last bits depend on the machine, and a kept plan must not


QUICKLY = 10.0
"""The layers over `KEPT` tokens, in all, up to which a plan is forecast as a run keeps it: about a second."""
LONG = 40.0
"""The layers over `KEPT` tokens from which on forecasts are announced: about 0.1 s each on one core. The work of a
layer grows as the square of the tokens, and models of more than `STRIDES` layers go through them by strides."""
_Read: TypeAlias = tuple[str, str, int, int | None, int | None, int, int]
"""A key of model inputs: the data, the kind of model, the lengths of its sequences, its patches, the most tokens, and
the number of windows."""
LEAST = 1 / 16  # the least work of a layer, over few tokens
STRIDES = 128  # the layers up to which a forecast takes longer the more there are


@dataclass(frozen=True)
class Forecaster:
    """Forecasts the variants of a space over its corpus; the same model at the same sizes is computed once. It reads at
    most `KEPT` tokens of a sequence; if it is `quick` and all of a plan would take long, those of `QUICK`, and one
    window. A forecast that is `kept`, by trial and variant, is not computed again, except a refusal. `say` is told of
    forecasts that take more than seconds."""

    models: Models
    cache: Path
    quick: bool = False
    kept: Callable[[], Mapping[tuple[str, str], Forecast]] = field(default=dict, repr=False, compare=False)
    say: Callable[[str], None] | None = field(default=None, repr=False, compare=False)
    _asked: dict[tuple[Block, Setting], Forecast] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[Architecture, _Read], Forecast] = field(default_factory=dict, repr=False, compare=False)
    _inputs: dict[_Read, ModelInputs] = field(default_factory=dict, repr=False, compare=False)
    _whole: list[bool] = field(default_factory=list, repr=False, compare=False)

    def of_plan(self, plan: Plan) -> Plan:
        """Return a plan with a forecast of each variant, or the reason why there is none."""
        known = self._kept_of(plan)
        unknown = {(v.block, v.setting) for v in plan.variants if v.id not in known and not v.setting.salt}
        new = (self._model(*each) for each in unknown - self._asked.keys())
        models = {model for model in new if model is not None}
        whole = dataclasses.replace(self, quick=False)
        if not self._whole:  # once, so that no plan has forecasts of both kinds side by side
            self._whole.append(SEQUENCES * sum(map(whole._work, models)) <= QUICKLY)
        maker = whole if self._whole[0] else self
        if self.say is not None and sum(map(maker._work, models)) >= LONG:
            self.say(f"forecasting {plural(len(models), 'model')} before the first step")
        forecasts = ((each.id, known.get(each.id) or maker.of(each.block, each.setting)) for each in plan.variants)
        return dataclasses.replace(plan, forecasts=tuple(forecasts))

    def made_of(self, plan: Plan) -> Plan:
        """Return a plan with the forecasts of its variants that are kept or were asked for; none is computed."""
        known = self._kept_of(plan)
        asked = ((each.id, known.get(each.id) or self._asked.get((each.block, each.setting))) for each in plan.variants)
        return dataclasses.replace(plan, forecasts=tuple((id, made) for id, made in asked if made is not None))

    @cached_property
    def _kept(self) -> Mapping[tuple[str, str], Forecast]:
        return self.kept()

    def _kept_of(self, plan: Plan) -> dict[str, Forecast]:
        kept = ((trial.variant, self._kept.get((trial.id, trial.variant))) for trial in plan.trials)
        return {variant: forecast for variant, forecast in kept if forecast is not None and not forecast.refused}

    def of(self, block: Block, setting: Setting) -> Forecast:
        """Nothing is raised for a model that cannot be forecast: it is `refused`, with the reason."""
        if (block, setting) not in self._asked:
            try:
                made = self._forecast(self.models.architecture(block, setting), setting)
            except AblateError as error:
                made = Forecast(refused=reason(error))
            except Exception as error:  # noqa: BLE001  a component may raise anything, and no plan needs a forecast
                line = " ".join(str(error).split())
                made = Forecast(refused=visible(f"its forecast failed: {type(error).__name__}: {line}"))
            self._asked[block, setting] = made
        return self._asked[block, setting]

    def _forecast(self, architecture: Architecture, setting: Setting) -> Forecast:
        if architecture.kind not in FORECAST_KINDS:  # known without loading the theory, and without reading the text
            return Forecast(refused=not_forecast(architecture.kind))
        read, inputs = self._inputs_of(architecture, setting)
        if (architecture, read) not in self._known:
            most = self._most(architecture)
            fewer = most < min(architecture.sizes.seq_len, KEPT) or inputs.windows is not None  # than a run would keep
            made = _forecast(architecture, self.models.space, inputs, most)
            self._known[architecture, read] = dataclasses.replace(made, quick=self.quick and fewer)
        return self._known[architecture, read]

    def _most(self, architecture: Architecture) -> int:
        if architecture.kind == "vit":
            return architecture.sizes.seq_len
        layers = architecture.sizes.n_layers
        return next(tokens for most, tokens in QUICK.items() if layers <= most) if self.quick else KEPT

    def _model(self, block: Block, setting: Setting) -> Architecture | None:
        try:
            model = self.models.architecture(block, setting)
        except Exception:  # noqa: BLE001  it is refused with its reason where it is forecast
            return None
        return model if model.kind in FORECAST_KINDS else None

    def _work(self, model: Architecture) -> float:
        """The work of a forecast in layers over `KEPT` tokens."""
        tokens = min(model.sizes.seq_len, self._most(model))
        layers = model.sizes.n_layers + (model.of_encoder().sizes.n_layers if model.sizes.source_len else 0)
        return min(layers, STRIDES) * max((tokens / KEPT) ** 2, LEAST)

    def _inputs_of(self, architecture: Architecture, setting: Setting) -> tuple[_Read, ModelInputs]:
        space, sizes = self.models.at(setting.changes), architecture.sizes
        text = self.models.text(setting.changes).fingerprint
        most, sequences = self._most(architecture), 1 if self.quick else SEQUENCES
        read = (text, architecture.kind, sizes.seq_len, sizes.source_len, architecture.patch, most, sequences)
        if read not in self._inputs:
            catalogue = space.grammar.catalogue
            self._inputs[read] = measure_model_inputs(
                architecture,
                space.data,
                space.folder,
                self.cache,
                catalogue,
                sequences=sequences,
                most=most,
                known=text,
            )
        return read, self._inputs[read]


def not_forecast(kind: str) -> str:
    return f"a model of kind {kind} is not forecast; choose one of kind {' or '.join(FORECAST_KINDS)}"


def reason(error: AblateError) -> str:
    return listed(["; ".join([each.message, *each.way_out]).strip() for each in error.mistakes])


def _shortened(architecture: Architecture, most: int) -> Architecture:
    sizes = architecture.sizes
    context, source = min(sizes.seq_len, most), None if sizes.source_len is None else min(sizes.source_len, most)
    shorter = dataclasses.replace(architecture, sizes=dataclasses.replace(sizes, seq_len=context, source_len=source))
    if source is not None and len(architecture.input_shape) == 2:
        return dataclasses.replace(shorter, input_shape=(source, architecture.input_shape[1]))
    return shorter


def _forecast(architecture: Architecture, space: Space, inputs: ModelInputs, most: int) -> Forecast:
    from ablate.theory.diagnostics import danger_of_refusal, dangers, silence

    sizes, shorter = architecture.sizes, _shortened(architecture, most)
    context, source = shorter.sizes.seq_len, shorter.sizes.source_len
    try:
        model = forecast_on(shorter, space.grammar.catalogue, inputs.of_first(context, source))
    except InputError as error:
        if (danger := danger_of_refusal(error)) is None:
            raise
        return Forecast(refused=reason(error), kinds=(danger.kind,))
    warned = [(danger.kind, str(danger)) for danger in dangers(model)]
    if model.encoder is not None:
        warned += [(danger.kind, f"encoder: {danger}") for danger in dangers(model.encoder)]
    streams = tuple(map(_stream, model.streams))
    first, last = streams[0], streams[-1]
    return Forecast(
        growth=_rounded(math.sqrt(model.growth)),
        cosine=last.cosine,
        gradient=first.gradient,
        logits=_rounded(math.sqrt(model.logits)),
        context=context,
        whole=(context, source) == (sizes.seq_len, sizes.source_len),
        repetition=None if math.isnan(model.repetition) else _rounded(model.repetition),
        streams=streams,
        dangers=(*(sentence for _, sentence in warned), *silence(model)),
        kinds=tuple(dict.fromkeys(kind for kind, _ in warned)),
    )


def _stream(stream: InitialStream) -> ForecastStream:
    size, cosine, gradient = map(_rounded, stream.shown())
    ends = [(_rounded(low), _rounded(high)) for low, high in stream.intervals() or ()]
    return ForecastStream(stream.layer, size, cosine, gradient, *ends)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


# The inputs of a model, with which its forecast begins: how often tokens are the same, kernels of the rest.

SEQUENCES = 4  # the typical windows of a text over which a forecast is averaged; a quick one reads one window


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """The probability that two tokens are the same, a number or [T, T], and the `kernel` of other inputs, [P, P]. A
    model of one stack that reads text has `windows` of it instead, [N, T]. Each is None where it is not measured."""

    repetition: float | npt.NDArray[np.float64] | None
    kernel: npt.NDArray[np.float64] | None
    windows: Windows | None = None

    def of_first(self, tokens: int, places: int | None) -> ModelInputs:
        """The inputs of the first `tokens` of a sequence, and of the first `places` of a source, if it has more."""
        repetition, kernel = self.repetition, self.kernel
        if isinstance(repetition, np.ndarray):
            repetition = repetition[:tokens, :tokens]
        if kernel is not None and places is not None:
            kernel = kernel[:places, :places]
        return ModelInputs(repetition, kernel, self.windows)


def measure_model_inputs(
    architecture: Architecture,
    data: Data,
    folder: Path,
    cache: Path,
    catalogue: Catalogue,
    *,
    sequences: int = SEQUENCES,
    most: int | None = None,
    known: str | None = None,
) -> ModelInputs:
    """Measure the inputs of a model in its training split; RefusedError where the data are missing or too small.

    The files of the data are not looked at where their fingerprint is `known` and the same was measured before. Of a
    text these are `sequences` windows, of `most` tokens if the model reads more. For models of two stacks, sources and
    targets are taken to fill up all places.
    """
    length = architecture.sizes.seq_len
    if corpus_of(data, catalogue).layout(data.corpus.settings) is None:
        if architecture.kind != "encoder_decoder":
            tokens = length if most is None else min(length, most)
            return ModelInputs(None, None, typical_windows(data, folder, cache, tokens, sequences, catalogue, known))
        repetition = measure_repetition(data, folder, cache, length, catalogue, known).value
        source = architecture.sizes.source_len
        if source is None:
            return ModelInputs(repetition, None)
        of_source = measure_repetition(data, folder, cache, source, catalogue, known).value
        return ModelInputs(repetition, np.where(np.eye(source, dtype=bool), 1.0, of_source))
    if not architecture.input_shape:
        return ModelInputs(None, None)
    kernel = measure_inputs(data, folder, cache, architecture.patch, catalogue, known)
    if architecture.kind != "encoder_decoder":
        return ModelInputs(None, kernel)
    return ModelInputs(measure_targets(data, folder, cache, length, catalogue, known), kernel)


def forecast_on(architecture: Architecture, catalogue: Catalogue, inputs: ModelInputs) -> InitialModel:
    """Raises InputError as `ablate.theory.models.forecast` does."""
    from ablate.theory.models import forecast
    from ablate.theory.sequences import forecast_sequences

    if inputs.windows is None:
        return forecast(architecture, catalogue, inputs.repetition, inputs.kernel)
    return forecast_sequences(architecture, catalogue, inputs.windows)
