"""The stream in front of the first layer: of tokens by how often two are the same, of other inputs by their own kernel.

    tokens             Σ = scale² σ² R            R_ij the chance that the tokens at i and j are the same, 1 for i = j
    patches, features  Σ = scale² E(K)            K_ij = E[x_i · x_j] / F, of the F numbers of each
    frames             Σ = E(K)                   E what a fresh matrix [d, F] makes of a kernel: F w K, w its variance

A class token stands before the patches: scale² σ², and nothing in common with them. Learned positions add σ_p² on the
diagonal, others their own kernel. Biases start at 0.

    Dosovitskiy et al. 2021, arXiv:2010.11929, Eq. 1; Kedia et al. 2024, arXiv:2403.09635, App. A.1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.classifier import CLASS_TOKEN, CLASSIFIERS, ON_A_GRID, embedded, features, grid
from ablate.errors import InputError
from ablate.signal.finite_width import Scatter
from ablate.signal.propagation import Array, Signal
from ablate.theory.blocks import through_part

INPUTS = {"vit": "patches", "mlp": "features", "encoder_decoder": "places of the source"}
"""What inputs are, by the kind of model."""


def stream_of_tokens(architecture: Architecture, catalogue: Catalogue, repetition: Array) -> Signal:
    """Return the stream in front of the first layer, for the chances that two tokens are the same, [T, T]."""
    sizes, numbers = architecture.sizes, architecture.numbers()
    table = numbers["embedding_std"] ** 2
    kernel: Array = numbers["embedding_scale"] ** 2 * table * repetition
    if architecture.segments:
        alike = np.ones((sizes.seq_len, sizes.seq_len))
        kernel = kernel + table * (pairs_of_segments(sizes.seq_len) if architecture.classes else alike)
    once = Scatter(follows=0.0, freedom=1 / sizes.d_model)  # an embedding is a row of random entries
    stream = replace(Signal.root(kernel, None, sizes.d_model), scatter=once)
    return _entered(architecture, catalogue, stream)


def stream_of_inputs(architecture: Architecture, catalogue: Catalogue, inputs: Array) -> Signal:
    """Return the stream in front of the first layer, for the kernel of what is read in place of tokens, [P, P].

    Raises InputError for an init that says nothing of kernels.
    """
    sizes, numbers = architecture.sizes, architecture.numbers()
    patched = architecture.kind in CLASSIFIERS
    count = features(architecture) if patched else architecture.input_shape[-1]
    read = replace(Signal.root(inputs, None, count), scatter=Scatter(follows=0.0))
    stream = through_part(architecture.init, read, sizes, architecture.init, catalogue, count, sizes.d_model)
    kernel, scale = stream.kernel, numbers["embedding_scale"] if patched else 1.0
    if architecture.pooling == CLASS_TOKEN:
        kernel = np.pad(kernel, ((1, 0), (1, 0)))
        kernel[0, 0] = numbers["embedding_std"] ** 2
    root = replace(Signal.root(scale**2 * kernel, None, sizes.d_model), scatter=stream.scatter)
    return _entered(architecture, catalogue, root)


def checked_inputs(architecture: Architecture, inputs: Array | None) -> Array:
    """Return the kernel of what a model reads in place of tokens; InputError for none, or for one of other shape."""
    what = INPUTS[architecture.kind]
    length = embedded(architecture) if architecture.kind in CLASSIFIERS else architecture.of_encoder().sizes.seq_len
    way_out = f"give inputs: E[x_i · x_j] / F of the {what}, [{length}, {length}]; of a space they are measured"
    if inputs is None:
        raise InputError(
            f"a model of kind {architecture.kind} is forecast for inputs of a kernel, which is not known\n  = {way_out}"
        )
    if inputs.shape != (length, length):
        raise InputError(
            f"inputs have the shape {inputs.shape}, but {what} that the model reads are {length}\n  = {way_out}"
        )
    return inputs


def _entered(architecture: Architecture, catalogue: Catalogue, stream: Signal) -> Signal:
    """Return the stream behind positions, dropout and the entry norm."""
    sizes, kernel, mean = architecture.sizes, stream.kernel, stream.mean
    if architecture.positions == "learned":
        kernel = kernel + architecture.number("position_std") ** 2 * np.eye(sizes.seq_len)
    elif architecture.positions != "none":
        places = sinusoids_on_a_grid(architecture) if architecture.positions in ON_A_GRID else _sinusoids(architecture)
        kernel, mean = kernel + places @ places.T / sizes.d_model, places.mean(1)
    stream = replace(stream, kernel=kernel, mean=mean)
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


def _sinusoids(architecture: Architecture) -> Array:
    """Return sinusoidal positions, [T, d]: sin and cos of t / 10000^(2k/d)."""
    length, width = architecture.sizes.seq_len, architecture.sizes.d_model
    angles = np.outer(np.arange(length), 10_000 ** (-np.arange(0, width, 2) / width))
    waves: Array = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width]
    return waves


def sinusoids_on_a_grid(architecture: Architecture) -> Array:
    """Return positions with a row y and a column x, [T, d]: sin and cos of x ω, then of y ω; 0 for a class token.

    ω_i = 10000^(-i / (d/4)), i = 0, …, d/4 - 1; as released, i is divided by d/4 - 1.
    """
    (rows, columns), quarter = grid(architecture), architecture.sizes.d_model // 4
    frequencies = 10_000 ** (-np.arange(quarter) / max(1, quarter - (architecture.positions == ON_A_GRID[1])))
    y, x = (np.outer(places, frequencies) for places in np.divmod(np.arange(rows * columns), columns))
    waves = np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1)
    return np.pad(waves, ((int(architecture.pooling == CLASS_TOKEN), 0), (0, 0)))
