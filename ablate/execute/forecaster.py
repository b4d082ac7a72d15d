"""Forecasts of the variants of a plan: each model once, over as many tokens of a sequence as there is time for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ablate.block.architecture import Architecture
from ablate.block.expression import Block
from ablate.data.corpus import corpus_of
from ablate.data.repetition import measure_repetition
from ablate.errors import AblateError, InputError
from ablate.plan.forecast import Forecast, ForecastStream
from ablate.plan.models import Models
from ablate.plan.plan import Plan, Variant
from ablate.plan.setting import Setting
from ablate.space.space import Space

QUICK: Mapping[int, int] = {12: 64, 48: 32, 1_000_000: 16}
"""The most tokens of a sequence that a quick forecast is over, by the number of layers up to which it is over so many:
it then takes less time than planning the variant, which also grows with the layers. Fewer tokens move the cosine at the
end little in `pre_ln`, `post_ln`, `sas` and `op` (64 instead of 512 by less than 0.02) and the ratio of gradients by up
to a quarter; where attention decays with distance, as in `e_spa`, the cosine of fewer tokens is larger."""
KEPT = 256
"""The most tokens that the forecasts of a run are over, which are compared with what its trials measure."""
DIGITS = 6
"""Significant digits of a forecast: the last bits depend on the machine, and a kept plan must not."""


@dataclass(frozen=True)
class Forecaster:
    """Forecasts the variants of a space over its corpus; what is the same model at the same sizes is computed once.

    It is over at most `KEPT` tokens of a sequence, or if it is `quick`, over those of `QUICK`.
    """

    models: Models
    cache: Path
    quick: bool = False
    _asked: dict[tuple[Block, Setting], Forecast] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[Architecture, float | None], Forecast] = field(default_factory=dict, repr=False, compare=False)
    _repetitions: dict[tuple[str, int], float | None] = field(default_factory=dict, repr=False, compare=False)

    def of_plan(self, plan: Plan) -> Plan:
        """Return a plan with a forecast of each variant, or the reason why there is none."""
        return dataclasses.replace(plan, forecasts=tuple((each.id, self.of_variant(each)) for each in plan.variants))

    def of_variant(self, variant: Variant) -> Forecast:
        """Forecast a variant. Nothing is raised for one that cannot be forecast: it is `refused`, with the reason."""
        return self.of(variant.block, variant.setting)

    def of(self, block: Block, setting: Setting) -> Forecast:
        """Forecast a block under a setting, as `of_variant` does."""
        if (block, setting) not in self._asked:
            try:
                architecture = self.models.architecture(block, setting)
                made = self._forecast(architecture, self._repetition(setting, architecture.sizes.seq_len))
            except AblateError as error:
                made = Forecast(refused=str(error).removeprefix("error: ").partition("\n")[0])
            self._asked[block, setting] = made
        return self._asked[block, setting]

    def _forecast(self, architecture: Architecture, repetition: float | None) -> Forecast:
        if (architecture, repetition) not in self._known:
            self._known[architecture, repetition] = _forecast(
                architecture, self.models.space, repetition, self._most(architecture)
            )
        return self._known[architecture, repetition]

    def _most(self, architecture: Architecture) -> int:
        """Return over how many tokens a model is forecast at most."""
        layers = architecture.sizes.n_layers
        return next(tokens for most, tokens in QUICK.items() if layers <= most) if self.quick else KEPT

    def _repetition(self, setting: Setting, length: int) -> float | None:
        """Return how often two tokens of a sequence of the text are the same; None where there is no text."""
        space = self.models.at(setting.changes)
        data, catalogue = space.data, space.grammar.catalogue
        text = self.models.text(setting.changes).fingerprint, length
        if text not in self._repetitions:
            is_text = corpus_of(data, catalogue).layout(data.corpus.settings) is None
            value = measure_repetition(data, space.folder, self.cache, length, catalogue).value if is_text else None
            self._repetitions[text] = value
        return self._repetitions[text]


def _forecast(architecture: Architecture, space: Space, repetition: float | None, most: int) -> Forecast:
    from ablate.theory.dangers import danger_of_refusal, dangers
    from ablate.theory.models import forecast

    length = architecture.sizes.seq_len
    context = min(length, most)
    shorter = dataclasses.replace(architecture, sizes=dataclasses.replace(architecture.sizes, seq_len=context))
    try:
        model = forecast(shorter, space.grammar.catalogue, repetition)
    except InputError as error:
        if (danger := danger_of_refusal(error)) is None:
            raise
        reason = "; ".join([danger.sentence, *error.mistakes[0].way_out])
        return Forecast(refused=reason, kinds=(danger.kind,))
    warned = dangers(model)
    streams = tuple(ForecastStream(s.layer, *map(_rounded, s.shown())) for s in model.streams)
    first, last = streams[0], streams[-1]
    return Forecast(
        growth=_rounded(math.sqrt(model.growth)),
        cosine=last.cosine,
        gradient=first.gradient,
        logits=_rounded(math.sqrt(model.logits)),
        context=context,
        whole=context == length,
        repetition=_rounded(model.repetition),
        streams=streams,
        dangers=tuple(map(str, warned)),
        kinds=tuple(dict.fromkeys(danger.kind for danger in warned)),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
