"""Sequences of a text: a forecast of the tokens that are read, rather than of tokens that repeat by chance.

Which tokens of a sequence are the same is known, so that each sequence has a token kernel of zeros and ones to begin
with, and a forecast of its own; what is forecast of a model is their mean. A mean taken before the model, of how often
two tokens are the same, is another thing: a block that keeps the same tokens the same and pulls the others apart would
be said to pull all of them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.signal.attention_start import AttentionStart
from ablate.theory.initial_state import InitialModel, InitialStream, Spread
from ablate.theory.models import forecast


def forecast_sequences(architecture: Architecture, catalogue: Catalogue, tokens: npt.NDArray[np.int64]) -> InitialModel:
    """Forecast a model that reads sequences, [N, T] of ids: the mean of a forecast of each.

    The gradient is the mean of that over the gradient behind the last layer of the same sequence. Attention and what
    is computed are those of the layers that are computed for every sequence. Raises InputError as `forecast` does.
    """
    return mean_of([forecast(architecture, catalogue, (each[:, None] == each).astype(float)) for each in tokens])


def mean_of(models: Sequence[InitialModel]) -> InitialModel:
    """Return the mean of forecasts of one model, over the sequences that it reads."""
    if len(models) == 1:
        return models[0]
    computed = frozenset.intersection(*(each.computed for each in models))
    return InitialModel(
        tuple(map(_mean_stream, zip(*(each.streams for each in models), strict=True))),
        logits=float(np.mean([each.logits for each in models])),
        repetition=float(np.mean([each.repetition for each in models])),
        computed=computed,
        attention=tuple(map(_together, zip(*(_of_layers(each, computed) for each in models), strict=True))),
        sampled=tuple(dict.fromkeys(name for each in models for name in each.sampled)),
        fresh=tuple(float(np.mean(shares)) for shares in zip(*(each.fresh for each in models), strict=True)),
    )


def _mean_stream(streams: Sequence[InitialStream]) -> InitialStream:
    spreads = [each.spread for each in streams if each.spread is not None]
    return InitialStream(
        layer=streams[0].layer,
        mean_square=float(np.mean([each.mean_square for each in streams])),
        correlation=float(np.mean([each.correlation for each in streams])),
        gradient=float(np.mean([each.gradient for each in streams])),
        gradient_correlation=float(np.mean([each.gradient_correlation for each in streams])),
        kernel=np.mean([each.kernel for each in streams], axis=0),
        spread=_mean_spread(spreads) if len(spreads) == len(streams) else None,
    )


def _mean_spread(spreads: Sequence[Spread]) -> Spread:
    """Return the mean of standard deviations: of a mean over sequences if what weights do is the same to each."""
    return Spread(*(float(np.mean([getattr(each, name) for each in spreads])) for name in Spread.__slots__))


def _of_layers(model: InitialModel, layers: frozenset[int]) -> list[AttentionStart]:
    return [each for each in model.attention if each.layer in layers]


def _together(attentions: Sequence[AttentionStart]) -> AttentionStart:
    """Return one attention over several sequences: its numbers are means over heads, and so over these."""
    return AttentionStart(tuple(head for each in attentions for head in each.heads), attentions[0].layer)
