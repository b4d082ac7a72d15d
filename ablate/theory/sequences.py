"""Sequences: a forecast of the tokens that are read, rather than of how often tokens repeat on average.

Each sequence has a token kernel of zeros and ones to begin with, and a forecast of its own; the forecast of a model is
their mean. A mean of repetition taken before the model is another thing: a block that keeps the same tokens the same
and pulls the others apart would be said to pull all apart. For a block without a text, sequences are drawn: the draw
is then a part of how far a network may be from the forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.signal.propagation import Array
from ablate.signal.sampled_attention import AttentionStart
from ablate.theory.initial_state import InitialModel, InitialStream, Spread
from ablate.theory.models import forecast


def forecast_sequences(architecture: Architecture, catalogue: Catalogue, tokens: npt.NDArray[np.int64]) -> InitialModel:
    """Forecast a model that reads sequences, [N, T] of ids: the mean of a forecast of each.

    The gradient is the mean of that over the gradient behind the last layer of the same sequence. Attention and what
    is computed are those of the layers that are computed for every sequence. Raises InputError as `forecast` does.
    """
    return mean_of([forecast(architecture, catalogue, _alike(each)) for each in tokens])


def forecast_patterns(
    architecture: Architecture,
    catalogue: Catalogue,
    tokens: npt.NDArray[np.int64],
    read: int,
    sources: npt.NDArray[np.int64] | None = None,
) -> InitialModel:
    """Forecast a model that reads sequences like these, [N, T]: intervals are for a mean over `read` others.

    The variance from sequence to sequence, over `read` and over N, is added to that of drawing weights. An encoder
    reads `sources`, [N, S], one with each sequence.
    """
    given = [None] * len(tokens) if sources is None else list(map(_alike, sources))
    pairs = zip(tokens, given, strict=True)
    return _over([forecast(architecture, catalogue, _alike(each), source) for each, source in pairs], read)


def _alike(tokens: npt.NDArray[np.int64]) -> Array:
    """1 where two tokens of a sequence are the same, else 0."""
    return np.equal.outer(tokens, tokens).astype(float)


def _over(models: Sequence[InitialModel], read: int) -> InitialModel:
    """The mean of forecasts over sequences, with intervals for a mean over `read` others, of both stacks."""
    mean, share = mean_of(models, of_logs=True), 1 / read + 1 / len(models)
    streams = zip(mean.streams, *(each.streams for each in models), strict=True)
    encoders = _encoders(models)
    return replace(
        mean,
        streams=tuple(_scattered(stream, each, share) for stream, *each in streams),
        encoder=_over(encoders, read) if encoders else None,
    )


def _encoders(models: Sequence[InitialModel]) -> list[InitialModel]:
    return [each.encoder for each in models if each.encoder is not None]


def _scattered(stream: InitialStream, each: Sequence[InitialStream], share: float) -> InitialStream:
    """Add to the spread of a mean stream the share of the variance over sequences that means of some have."""
    if stream.spread is None or len(each) < 2:
        return stream
    with np.errstate(all="ignore"):
        numbers = np.array([(np.log(of.mean_square), of.correlation, np.log(of.gradient)) for of in each])
        over = np.nan_to_num(numbers.std(0, ddof=1), nan=0.0, posinf=0.0) * np.sqrt(share)
    spread = Spread(
        *(float(np.hypot(getattr(stream.spread, name), sd)) for name, sd in zip(Spread.__slots__, over, strict=True))
    )
    return replace(stream, spread=spread)


def mean_of(models: Sequence[InitialModel], *, of_logs: bool = False) -> InitialModel:
    """The mean of forecasts of one model, over the sequences that it reads.

    That of mean squares of the stream, gradients and logits is `of_logs`, the geometric one, where sequences are drawn:
    in blocks whose sizes grow faster than in proportion, few sequences have nearly all of an arithmetic mean.
    """
    if len(models) == 1:
        return models[0]
    mean = _mean_of_logs if of_logs else _mean
    computed, encoders = frozenset.intersection(*(each.computed for each in models)), _encoders(models)
    attentions = [[each for each in model.attention if each.layer in computed] for model in models]
    return InitialModel(
        tuple(_mean_stream(each, mean) for each in zip(*(each.streams for each in models), strict=True)),
        logits=mean([each.logits for each in models]),
        repetition=float(np.mean([each.repetition for each in models])),
        computed=computed,
        attention=tuple(map(_together, zip(*attentions, strict=True))),
        sampled=tuple(dict.fromkeys(name for each in models for name in each.sampled)),
        fresh=tuple(float(np.mean(shares)) for shares in zip(*(each.fresh for each in models), strict=True)),
        encoder=mean_of(encoders, of_logs=of_logs) if encoders else None,
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


@np.errstate(all="ignore")  # of zeros it is 0
def _mean_of_logs(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _mean_stream(streams: Sequence[InitialStream], mean: Callable[[Sequence[float]], float]) -> InitialStream:
    spreads = [each.spread for each in streams if each.spread is not None]
    return InitialStream(
        layer=streams[0].layer,
        mean_square=mean([each.mean_square for each in streams]),
        correlation=float(np.mean([each.correlation for each in streams])),
        gradient=mean([each.gradient for each in streams]),
        gradient_correlation=float(np.mean([each.gradient_correlation for each in streams])),
        kernel=np.mean([each.kernel for each in streams], axis=0),
        spread=_mean_spread(spreads) if len(spreads) == len(streams) else None,
    )


def _mean_spread(spreads: Sequence[Spread]) -> Spread:
    """The mean of standard deviations: that of a mean over sequences if weights do the same to each."""
    return Spread(*(float(np.mean([getattr(each, name) for each in spreads])) for name in Spread.__slots__))


def _together(attentions: Sequence[AttentionStart]) -> AttentionStart:
    """One attention over several sequences: its numbers are means over heads, and so over these."""
    return AttentionStart(tuple(head for each in attentions for head in each.heads), attentions[0].layer)


# Token patterns: random sequences of which two tokens are the same with a given chance, for a block without a text.
#
# Tokens are independent. All 1/r kinds, rounded up, are equally likely but one, which is likelier, so that Σ p² = r.
# A forecast is over a few sequences; `READ` is how many others a sampled initialisation of a block reads at once.

READ = 8
SHALLOW, PATTERNS, OF_DEEP = 8, 8, 4
"""Up to how many layers a forecast is over so many sequences; that of a deeper one, which takes longer, over fewer."""
FORECAST, SAMPLED = 0, 1  # the purposes of sequences, which are drawn apart
SOURCE = 2  # added to the purpose, for sequences that an encoder reads


def draw_tokens(
    repetition: float | None, vocab_size: int, length: int, count: int, of: int, seed: int = 0
) -> npt.NDArray[np.int64]:
    """Random tokens, [count, length]; without a repetition they are of all kinds that there are."""
    p = probabilities(repetition, vocab_size)
    return np.random.default_rng((of, seed)).choice(len(p), (count, length), p=p)


def patterns(layers: int) -> int:
    """The number of sequences that a forecast of so many layers is over."""
    return PATTERNS if layers <= SHALLOW else OF_DEEP


def probabilities(repetition: float | None, vocab_size: int) -> npt.NDArray[np.float64]:
    """The chance of each kind of token, so that two are the same with the chance `repetition`, if it can be.

    >>> probabilities(0.5, 10), probabilities(0.68, 10)
    (array([0.5, 0.5]), array([0.2, 0.8]))
    """
    if not repetition or repetition * vocab_size <= 1:
        return np.full(vocab_size, 1 / vocab_size)
    kinds = ceil(round(1 / repetition, 9))
    likeliest = (1 + sqrt(max((kinds - 1) * (kinds * repetition - 1), 0.0))) / kinds
    rest = (1 - likeliest) / max(kinds - 1, 1)
    return np.array([*[rest] * (kinds - 1), likeliest]).round(15)
