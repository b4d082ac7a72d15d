"""A whole model before a single step: how alike its tokens become, layer by layer, and what reaches back of a gradient.

    Σ_0 of embedding, positions and entry norm;  Σ_l of block l at Σ_{l-1};  Γ_L of the final norm at I,  Γ_{l-1} of Γ_l

The gradient of the logits is taken as one of its own at each token, independent of the weights, and of mean square 1:
only ratios of gradients say something. Numbers are means over random weights in the limit of width; one start of width
d is about 1/√d away, more where depth multiplies it.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.errors import InputError
from ablate.signal.moments import zipf_correlation
from ablate.signal.propagation import Array, Signal, transferred
from ablate.theory.blocks import through_block, through_part
from ablate.theory.starts import ModelAtStart, StreamAtStart, mean_cosine

FORECAST = ("decoder", "encoder")
"""The kinds of model that are forecast."""


def forecast(architecture: Architecture, catalogue: Catalogue, repetition: float | None = None) -> ModelAtStart:
    """Forecast a model; `repetition` is the share of pairs of tokens that are the same, by Zipf's law unless given.

    Raises InputError for a kind of model, or a component, that has no token kernel in closed form.
    """
    if architecture.kind not in FORECAST:
        raise InputError(
            f"a model of kind {architecture.kind} is not forecast\n  = choose one of kind {' or '.join(FORECAST)}"
        )
    sizes, init = architecture.sizes, architecture.init
    share = min(zipf_correlation(sizes.vocab_size), 1.0) if repetition is None else repetition
    stream = _embedded(architecture, catalogue, share)
    streams = [stream]
    for layer in range(1, sizes.n_layers + 1):
        start = Signal.root(stream.kernel, stream.mean)
        stream = through_block(architecture.block, start, sizes.at(layer), init, catalogue)
        streams.append(stream)
    last = Signal.root(stream.kernel, stream.mean)
    if architecture.final_norm is not None:
        last = through_part(architecture.final_norm, last, sizes, init, catalogue, sizes.d_model)
    kept = reduce(_then, (each.transfer for each in (*streams, last)))
    gradients = [last.backward(np.eye(sizes.seq_len))]
    for stream in reversed(streams[1:]):
        gradients.append(stream.backward(gradients[-1]))
    reference = float(np.trace(gradients[0]))
    return ModelAtStart(
        tuple(
            StreamAtStart(
                layer=layer,
                mean_square=stream.mean_square,
                correlation=mean_cosine(stream.kernel),
                gradient=float(np.trace(gradient)) / reference if reference else math.nan,
                gradient_correlation=mean_cosine(gradient),
                kernel=stream.kernel,
            )
            for layer, (stream, gradient) in enumerate(zip(streams, reversed(gradients), strict=True))
        ),
        logits=_logits(architecture, catalogue, last, kept),
        repetition=share,
    )


def _embedded(architecture: Architecture, catalogue: Catalogue, repetition: float) -> Signal:
    """Return the stream in front of the first layer."""
    sizes, numbers = architecture.sizes, architecture.numbers()
    same, alike = np.eye(sizes.seq_len), np.ones((sizes.seq_len, sizes.seq_len))
    table = numbers["embedding_std"] ** 2
    kernel = numbers["embedding_scale"] ** 2 * table * ((1 - repetition) * same + repetition * alike)
    if architecture.segments:  # sequences of one segment, or of two about as long
        kernel = kernel + table * (alike if architecture.segments == 1 else (alike + _halves(sizes.seq_len)) / 2)
    mean = np.zeros(sizes.seq_len)
    if architecture.positions == "learned":
        kernel = kernel + numbers["position_std"] ** 2 * same
    elif architecture.positions == "sinusoidal":
        kernel, mean = kernel + _sinusoids(sizes.seq_len, sizes.d_model), _sinusoid_means(sizes.seq_len, sizes.d_model)
    stream = Signal.root(kernel, mean)
    if architecture.embedding_dropout:
        stream = stream.dropped(architecture.embedding_dropout)
    if architecture.entry_norm is not None:
        stream = through_part(architecture.entry_norm, stream, sizes, architecture.init, catalogue, sizes.d_model)
    return stream


def _halves(length: int) -> Array:
    second = np.arange(length) >= length / 2
    return np.asarray(second[:, None] == second, dtype=np.float64)


def _angles(length: int, width: int) -> Array:
    frequencies = 10_000 ** (-2 * np.arange(width // 2) / width)
    return np.outer(np.arange(length), frequencies)


def _sinusoids(length: int, width: int) -> Array:
    """Return the kernel of sinusoidal positions, mean_k cos((i - j) θ_k) / 2."""
    angles = _angles(length, width)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return np.asarray(waves @ waves.T / width)


def _sinusoid_means(length: int, width: int) -> Array:
    angles = _angles(length, width)
    return np.asarray((np.sin(angles) + np.cos(angles)).sum(1) / width)


def _then(before: Array | None, after: Array | None) -> Array | None:
    """Return the transfer of two maps, one after the other."""
    return None if before is None else transferred(after, before)


def _logits(architecture: Architecture, catalogue: Catalogue, last: Signal, kept: Array | None) -> float:
    """Return the mean square of the logits: scale² d σ² Σ_tt of a fresh head; NaN behind an encoder's transform.

    A tied head meets the token's own row, of which the stream still has `kept`, J: (scale · s J_tt σ² d)² / V more.
    """
    sizes, scale = architecture.sizes, architecture.number("logit_scale")
    if architecture.transform != "none":
        return math.nan
    if not architecture.tied:
        init = architecture.head_init or architecture.init
        rows = through_part(init, last, sizes, architecture.init, catalogue, sizes.d_model, sizes.vocab_size)
        return float(scale**2 * rows.mean_square)
    table = architecture.number("embedding_std") ** 2
    left = np.zeros(1) if kept is None else np.diag(kept) if kept.ndim == 2 else kept
    own = architecture.number("embedding_scale") * left * table * sizes.d_model
    return float(scale**2 * (sizes.d_model * table * last.mean_square + (own**2).mean() / sizes.vocab_size))
