"""A whole model before a single step: how alike its tokens become, layer by layer, and how its gradient goes back.

    Σ_0 of embedding, positions and entry norm;  Σ_l of block l at Σ_{l-1};  Γ_L of the final norm at I,  Γ_{l-1} of Γ_l

Behind the final norm the gradient is taken as independent of the weights and from token to token, of mean square 1, so
that only ratios of gradients say something. Numbers are means over random weights in the limit of width.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.errors import InputError
from ablate.plan.forecast import KINDS
from ablate.signal.finite_width import Scatter
from ablate.signal.moments import zipf_correlation
from ablate.signal.propagation import Array, Signal, transferred
from ablate.theory.blocks import through_part
from ablate.theory.initial_state import InitialModel, InitialStream, mean_cosine
from ablate.theory.intervals import fresh_shares, spreads
from ablate.theory.through_layers import through_layers


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and said as such
def forecast(architecture: Architecture, catalogue: Catalogue, repetition: float | Array | None = None) -> InitialModel:
    """Forecast a model; `repetition` is how likely two tokens are the same, by Zipf's law unless given.

    One number stands for all pairs of places of a sequence; a matrix [T, T] gives each its own, off its diagonal.

    Raises InputError for a kind of model, or a component, that has no token kernel in closed form.
    """
    if architecture.kind not in KINDS:
        raise InputError(
            f"a model of kind {architecture.kind} is not forecast\n  = choose one of kind {' or '.join(KINDS)}"
        )
    sizes, init = architecture.sizes, architecture.init
    if isinstance(repetition, np.ndarray) and repetition.shape != (sizes.seq_len, sizes.seq_len):
        raise InputError(
            f"repetition has the shape {repetition.shape}, but a sequence has {sizes.seq_len} tokens\n"
            f"  = give one number, or a matrix of {sizes.seq_len} by {sizes.seq_len}"
        )
    given = min(zipf_correlation(sizes.vocab_size), 1.0) if repetition is None else repetition
    alike = np.where(np.eye(sizes.seq_len, dtype=bool), 1.0, given)
    share = mean_cosine(alike) if sizes.seq_len > 1 else float(np.mean(given))
    start = _embedded(architecture, catalogue, alike)
    through = through_layers(architecture.block, start, sizes, init, catalogue, alike)
    last = Signal.root(through.kernels[-1], through.mean)
    if architecture.final_norm is not None:
        last = through_part(architecture.final_norm, last, sizes, init, catalogue, sizes.d_model)
    kept = None if through.kept is None else transferred(last.transfer, through.kept)
    gradients = through.backward(last.backward(np.eye(sizes.seq_len)))
    reference = gradients.mean_squares[-1]
    cosines = [mean_cosine(kernel) for kernel in through.kernels]
    spread = spreads(through.scatter, gradients.variances, cosines, start.scatter.total(start.kernel), sizes)
    return InitialModel(
        tuple(
            InitialStream(
                layer=layer,
                mean_square=float(np.diag(kernel).mean()),
                correlation=cosines[layer],
                gradient=gradients.mean_squares[layer] / reference if reference else math.nan,
                gradient_correlation=gradients.cosines[layer],
                kernel=kernel,
                spread=spread[layer],
            )
            for layer, kernel in enumerate(through.kernels)
        ),
        logits=_logits(architecture, catalogue, last, kept),
        repetition=share,
        computed=through.computed,
        attention=through.attention,
        sampled=tuple(
            sorted({*through.sampled, *(["attention"] if any(a.sampled for a in through.attention) else [])})
        ),
        fresh=fresh_shares(through.scatter, sizes.n_layers),
    )


def _embedded(architecture: Architecture, catalogue: Catalogue, repetition: Array) -> Signal:
    """Return the stream in front of the first layer, for the chances that two tokens are the same, [T, T]."""
    sizes, numbers = architecture.sizes, architecture.numbers()
    same, alike = np.eye(sizes.seq_len), np.ones((sizes.seq_len, sizes.seq_len))
    table = numbers["embedding_std"] ** 2
    kernel: Array = numbers["embedding_scale"] ** 2 * table * repetition
    if architecture.segments:
        kernel = kernel + table * (pairs_of_segments(sizes.seq_len) if architecture.classes else alike)
    mean = np.zeros(sizes.seq_len)
    if architecture.positions == "learned":
        kernel = kernel + numbers["position_std"] ** 2 * same
    elif architecture.positions == "sinusoidal":
        places = _sinusoids(sizes.seq_len, sizes.d_model)
        kernel, mean = kernel + places @ places.T / sizes.d_model, places.mean(1)
    once = Scatter(follows=0.0, freedom=1 / sizes.d_model)  # an embedding is a row of random entries
    stream = replace(Signal.root(kernel, mean, sizes.d_model), scatter=once)
    if architecture.embedding_dropout:
        stream = stream.dropped(architecture.embedding_dropout)
    if architecture.entry_norm is not None:
        stream = through_part(architecture.entry_norm, stream, sizes, architecture.init, catalogue, sizes.d_model)
    return stream


def pairs_of_segments(length: int) -> Array:
    """Return how likely two tokens are of one segment, where a sequence is split in two anywhere: 1 - |i - j| / T.

    Its mean is Kedia et al.'s 2/3 (arXiv:2403.09635, App. A.1), but for one part in T.
    """
    places = np.arange(length)
    return np.asarray(1 - np.abs(places[:, None] - places) / length)


def _sinusoids(length: int, width: int) -> Array:
    """Return sinusoidal positions, [T, d]: sin and cos of t / 10000^(2k/d)."""
    angles = np.outer(np.arange(length), 10_000 ** (-np.arange(0, width, 2) / width))
    waves: Array = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width]
    return waves


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
