"""A whole model before a single step: how alike its tokens become, layer by layer, and how its gradient goes back.

    Σ_0 of embedding, positions and entry norm;  Σ_l of block l at Σ_{l-1};  Γ_L of the final norm at I,  Γ_{l-1} of Γ_l

Behind the final norm the gradient is taken as independent of the weights and from token to token, of mean square 1, so
that only ratios of gradients say something. Kernels are means over random weights in the limit of width, and so are
cosines; mean squares are those of the kernels, corrected for the width to first order (`initial_state.shifts`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ablate.block.address import ENCODER
from ablate.block.architecture import (
    CLASS_TOKEN,
    CLASSIFIERS,
    ON_A_GRID,
    Architecture,
    check_kind,
    check_reads_encoder,
    embedded,
    features,
    grid,
)
from ablate.block.catalogue import Catalogue
from ablate.block.reader import read_component
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.plan.plan import FORECAST_KINDS
from ablate.signal.finite_width import Scatter
from ablate.signal.moments import zipf_correlation
from ablate.signal.propagation import Array, Signal, transferred
from ablate.theory.blocks import InsideValue, profiles, through_part
from ablate.theory.initial_state import (
    InitialModel,
    InitialStream,
    fresh_shares,
    mean_cosine,
    shifts,
    spreads,
    token_variances,
)
from ablate.theory.through_layers import Gradients, LayerKernels, through_layers

# The stream in front of the first layer: of tokens by how often two are the same, of other inputs by their own
# kernel.
#
#   tokens             Σ = scale² σ² R            R_ij the chance that the tokens at i and j are the same, 1 for i = j
#   patches, features  Σ = scale² E(K)            K_ij = E[x_i · x_j] / F, of the F numbers of each
#   frames             Σ = E(K)                   E what a fresh matrix [d, F] makes of a kernel: F w K, w its variance
#
# A class token stands before the patches: scale² σ², and nothing in common with them. Learned positions add σ_p² on
# the diagonal, others their own kernel. Biases start at 0.
#
#     Dosovitskiy et al. 2021, arXiv:2010.11929, Eq. 1; Kedia et al. 2024, arXiv:2403.09635, App. A.1.

INPUTS = {"vit": "patches", "mlp": "features", "encoder_decoder": "places of the source"}


def stream_of_tokens(architecture: Architecture, catalogue: Catalogue, repetition: Array) -> Signal:
    """The stream in front of the first layer, for the chances that two tokens are the same, [T, T]."""
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
    """The stream in front of the first layer, for the kernel of the inputs in place of tokens, [P, P].

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
    """The kernel of the inputs in place of tokens; InputError for none, or for one of other shape."""
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
    """The stream behind positions, dropout and the entry norm."""
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
    """The chance that two tokens are of one segment, where a sequence is split in two anywhere: 1 - |i - j| / T.

    Its mean is Kedia et al.'s 2/3 (arXiv:2403.09635, App. A.1), but for one part in T.
    """
    places = np.arange(length)
    return np.asarray(1 - np.abs(places[:, None] - places) / length)


def _sinusoids(architecture: Architecture) -> Array:
    """Sinusoidal positions, [T, d]: sin and cos of t / 10000^(2k/d)."""
    length, width = architecture.sizes.seq_len, architecture.sizes.d_model
    angles = np.outer(np.arange(length), 10_000 ** (-np.arange(0, width, 2) / width))
    waves: Array = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width]
    return waves


def sinusoids_on_a_grid(architecture: Architecture) -> Array:
    """Positions with a row y and a column x, [T, d]: sin and cos of x ω, then of y ω; 0 for a class token.

    ω_i = 10000^(-i / (d/4)), i = 0, …, d/4 - 1; as released, i is divided by d/4 - 1.
    """
    (rows, columns), quarter = grid(architecture), architecture.sizes.d_model // 4
    frequencies = 10_000 ** (-np.arange(quarter) / max(1, quarter - (architecture.positions == ON_A_GRID[1])))
    y, x = (np.outer(places, frequencies) for places in np.divmod(np.arange(rows * columns), columns))
    waves = np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1)
    return np.pad(waves, ((int(architecture.pooling == CLASS_TOKEN), 0), (0, 0)))


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and said as such
def forecast(
    architecture: Architecture,
    catalogue: Catalogue,
    repetition: float | Array | None = None,
    inputs: Array | None = None,
) -> InitialModel:
    """Forecast a model; `repetition` is how likely two tokens are the same, by Zipf's law unless given.

    One number stands for all pairs of places; a matrix [T, T] gives each its own, off its diagonal. Inputs in place of
    tokens (patches of images, features or frames) have the kernel `inputs`, E[x_i · x_j] / F, [P, P]; of a source of
    tokens it is how likely two are the same, [S, S], or else `repetition` where it is a number. A source, and its
    target, are as long as the model reads.

    Raises InputError for a kind of model, or a component, that has no token kernel in closed form, and for inputs that
    are missing or of another shape.
    """
    if architecture.kind not in FORECAST_KINDS:
        raise InputError(
            f"a model of kind {architecture.kind} is not forecast\n  = choose one of kind {' or '.join(FORECAST_KINDS)}"
        )
    if architecture.kind in CLASSIFIERS:
        check_kind(architecture, catalogue)
        start = stream_of_inputs(architecture, catalogue, checked_inputs(architecture, inputs))
        stack = _through(architecture, catalogue, start, None, math.nan)
        return stack.state(stack.gradients())
    alike, share = _repetition(architecture.sizes, repetition)
    start = stream_of_tokens(architecture, catalogue, alike)
    if architecture.kind != "encoder_decoder":
        stack = _through(architecture, catalogue, start, alike, share)
        return stack.state(stack.gradients())
    check_reads_encoder(architecture)
    encoder = _encoder(architecture, catalogue, repetition, inputs)
    read = InsideValue(ENCODER)
    stood = read.stands(encoder.last)
    decoder = _through(architecture, catalogue, start, alike, share, read)
    gradients = decoder.gradients()
    nothing = np.zeros_like(encoder.last.kernel)  # what reads the encoder is all that leaves it a gradient
    return replace(decoder.state(gradients), encoder=encoder.state(encoder.through.backward(stood.backward(nothing))))


def _repetition(sizes: Sizes, repetition: float | Array | None) -> tuple[Array, float]:
    """The chances that two tokens are the same, [T, T], and their mean over two places; InputError for other shapes."""
    if isinstance(repetition, np.ndarray) and repetition.shape != (sizes.seq_len, sizes.seq_len):
        raise InputError(
            f"repetition has the shape {repetition.shape}, but a sequence has {sizes.seq_len} tokens\n"
            f"  = give one number, or a matrix of {sizes.seq_len} by {sizes.seq_len}"
        )
    given = min(zipf_correlation(sizes.vocab_size), 1.0) if repetition is None else repetition
    alike = np.where(np.eye(sizes.seq_len, dtype=bool), 1.0, given)
    return alike, mean_cosine(alike) if sizes.seq_len > 1 else float(np.mean(given))


def _encoder(
    architecture: Architecture, catalogue: Catalogue, repetition: float | Array | None, inputs: Array | None
) -> _Stack:
    of_encoder = architecture.of_encoder()
    if profiles(architecture.block, catalogue):
        raise InputError(
            "parameters that start from data are not forecast in a model of two stacks\n"
            "  = choose a part that starts without, or a model of kind decoder"
        )
    if architecture.input_shape:
        start = stream_of_inputs(of_encoder, catalogue, checked_inputs(architecture, inputs))
        return _through(of_encoder, catalogue, start, None, math.nan)
    if inputs is None and isinstance(repetition, np.ndarray):
        checked_inputs(architecture, inputs)
    alike, share = _repetition(of_encoder.sizes, repetition if inputs is None else checked_inputs(architecture, inputs))
    return _through(of_encoder, catalogue, stream_of_tokens(of_encoder, catalogue, alike), alike, share)


@dataclass(frozen=True)
class _Stack:
    """The layers of a model from `start` on, and the stream behind their final norm, `last`."""

    architecture: Architecture
    catalogue: Catalogue
    start: Signal
    through: LayerKernels
    last: Signal
    share: float

    def gradients(self) -> Gradients:
        """The gradients behind each layer, of a loss whose gradient behind the final norm has mean square 1."""
        return self.through.backward(self.last.backward(np.eye(self.architecture.sizes.seq_len)))

    def state(self, gradients: Gradients) -> InitialModel:
        """The numbers of these layers; `gradients` are relative to that behind the last of them."""
        through, sizes = self.through, self.architecture.sizes
        reference = gradients.mean_squares[-1]
        cosines = [mean_cosine(kernel) for kernel in through.kernels]
        entered = self.start.scatter.total(self.start.kernel)
        varied = token_variances(through.scatter, self.start.scatter, self.start.kernel, sizes.n_layers)
        spread = spreads(through.scatter, gradients.variances, cosines, entered, sizes, varied)
        at_width = shifts(through.scatter, self.start.scatter, varied)
        kept = None if through.kept is None else transferred(self.last.transfer, through.kept)
        return InitialModel(
            tuple(
                InitialStream(
                    layer=layer,
                    mean_square=float(np.diag(kernel).mean() * np.exp(at_width[layer][0])),
                    correlation=cosines[layer],
                    gradient=gradients.mean_squares[layer] / reference * float(np.exp(at_width[layer][1]))
                    if reference
                    else math.nan,
                    gradient_correlation=gradients.cosines[layer],
                    kernel=kernel,
                    spread=spread[layer],
                )
                for layer, kernel in enumerate(through.kernels)
            ),
            logits=_logits(self.architecture, self.catalogue, self.last, kept),
            repetition=self.share,
            computed=through.computed,
            attention=through.attention,
            sampled=tuple(
                sorted({*through.sampled, *(["attention"] if any(a.sampled for a in through.attention) else [])})
            ),
            fresh=fresh_shares(through.scatter, sizes.n_layers),
        )


def _through(
    architecture: Architecture,
    catalogue: Catalogue,
    start: Signal,
    repetition: Array | None,
    share: float,
    encoder: InsideValue | None = None,
) -> _Stack:
    """A stack of layers, and its final norm; `encoder` is what a decoder reads beside its tokens."""
    sizes, init = architecture.sizes, architecture.init
    encodes = architecture.kind == "encoder_decoder" and encoder is None
    block = architecture.block
    through = through_layers(block, start, sizes, init, catalogue, repetition, encoder, encodes=encodes)
    last = Signal.root(through.kernels[-1], through.mean, sizes.d_model)
    if architecture.final_norm is not None:
        last = through_part(architecture.final_norm, last, sizes, init, catalogue, sizes.d_model)
    return _Stack(architecture, catalogue, start, through, last, share)


def _logits(architecture: Architecture, catalogue: Catalogue, last: Signal, kept: Array | None) -> float:
    """The mean square of the logits: scale² d σ² Σ_tt of a fresh head; NaN behind an encoder's transform.

    A tied head meets the token's own row, of which the stream still has `kept`, J: (scale · s J_tt σ² d)² / V more.
    """
    sizes, scale = architecture.sizes, architecture.number("logit_scale")
    if architecture.kind in CLASSIFIERS:
        last = _pooled(architecture, catalogue, last)
    of_encoder = architecture.kind == "encoder_decoder" and sizes.source_len is None
    if architecture.transform != "none" or of_encoder:
        return math.nan
    if not architecture.tied:
        init = architecture.head_init or architecture.init
        rows = through_part(init, last, sizes, architecture.init, catalogue, sizes.d_model, sizes.vocab_size)
        return float(scale**2 * rows.mean_square)
    table = architecture.number("embedding_std") ** 2
    left = np.zeros(1) if kept is None else np.diag(kept) if kept.ndim == 2 else kept
    own = architecture.number("embedding_scale") * left * table * sizes.d_model
    return float(scale**2 * (sizes.d_model * table * last.mean_square + (own**2).mean() / sizes.vocab_size))


def _pooled(architecture: Architecture, catalogue: Catalogue, last: Signal) -> Signal:
    """The input of a classifier's head, at each place: the first token, or the mean of all.

    Where the head has a layer it is tanh(h Wᵀ), as its bias starts at 0.
    """
    sizes = architecture.sizes
    first = architecture.pooling == CLASS_TOKEN
    share = np.eye(1, sizes.seq_len)[0] if first else np.full(sizes.seq_len, 1 / sizes.seq_len)
    pooled = last.mixed(np.tile(share, (sizes.seq_len, 1)))
    if not architecture.head_layer:
        return pooled
    rows = through_part(architecture.init, pooled, sizes, architecture.init, catalogue, sizes.d_model, sizes.d_model)
    return through_part(read_component("tanh", "activation", catalogue), rows, sizes, architecture.init, catalogue)
