"""A whole model before a single step: how alike its tokens become, layer by layer, and how its gradient goes back.

    Σ_0 of embedding, positions and entry norm;  Σ_l of block l at Σ_{l-1};  Γ_L of the final norm at I,  Γ_{l-1} of Γ_l

Behind the final norm the gradient is taken as independent of the weights and from token to token, of mean square 1, so
that only ratios of gradients say something. Kernels are means over random weights in the limit of width, and so are
cosines; mean squares are those of the kernels, with what the width makes of them to first order (`intervals.shifts`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.classifier import CLASS_TOKEN, CLASSIFIERS, check_kind
from ablate.block.cross import check_reads_encoder
from ablate.block.read import read_component
from ablate.block.sizes import Sizes
from ablate.block.value_addresses import ENCODER
from ablate.errors import InputError
from ablate.plan.forecast import KINDS
from ablate.signal.moments import zipf_correlation
from ablate.signal.propagation import Array, Signal, transferred
from ablate.theory.blocks import profiles, through_part
from ablate.theory.elsewhere import InsideValue
from ablate.theory.embedding import checked_inputs, stream_of_inputs, stream_of_tokens
from ablate.theory.initial_state import InitialModel, InitialStream, mean_cosine
from ablate.theory.intervals import fresh_shares, shifts, spreads, token_variances
from ablate.theory.through_layers import Gradients, Layers, through_layers


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and said as such
def forecast(
    architecture: Architecture,
    catalogue: Catalogue,
    repetition: float | Array | None = None,
    inputs: Array | None = None,
) -> InitialModel:
    """Forecast a model; `repetition` is how likely two tokens are the same, by Zipf's law unless given.

    One number stands for all pairs of places of a sequence; a matrix [T, T] gives each its own, off its diagonal.
    What is read in place of tokens, patches of images, features or frames, has the kernel `inputs`, E[x_i · x_j] / F,
    [P, P]; of a source of tokens it is how likely two are the same, [S, S], or else `repetition` where it is a number.
    A source, and its target, are as long as the model reads.

    Raises InputError for a kind of model, or a component, that has no token kernel in closed form, and for inputs that
    are missing or of another shape.
    """
    if architecture.kind not in KINDS:
        raise InputError(
            f"a model of kind {architecture.kind} is not forecast\n  = choose one of kind {' or '.join(KINDS)}"
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
    """Return how likely two tokens are the same, [T, T], and its mean over two places; InputError for another shape."""
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
    """Go through the encoder of a model that has one, as `forecast` is given what it reads."""
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
    """Layers of a model that were gone through from `start` on, and the stream behind their final norm, `last`."""

    architecture: Architecture
    catalogue: Catalogue
    start: Signal
    through: Layers
    last: Signal
    share: float

    def gradients(self) -> Gradients:
        """Return the gradients behind each layer, of a loss that has that of mean square 1 behind the final norm."""
        return self.through.backward(self.last.backward(np.eye(self.architecture.sizes.seq_len)))

    def state(self, gradients: Gradients) -> InitialModel:
        """Return the numbers of these layers; `gradients` are relative to that behind the last of them."""
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
    """Go through a stack of layers, and its final norm; `encoder` is what a decoder reads beside its tokens."""
    sizes, init = architecture.sizes, architecture.init
    encodes = architecture.kind == "encoder_decoder" and encoder is None
    block = architecture.block
    through = through_layers(block, start, sizes, init, catalogue, repetition, encoder, encodes=encodes)
    last = Signal.root(through.kernels[-1], through.mean, sizes.d_model)
    if architecture.final_norm is not None:
        last = through_part(architecture.final_norm, last, sizes, init, catalogue, sizes.d_model)
    return _Stack(architecture, catalogue, start, through, last, share)


def _logits(architecture: Architecture, catalogue: Catalogue, last: Signal, kept: Array | None) -> float:
    """Return the mean square of the logits: scale² d σ² Σ_tt of a fresh head; NaN behind an encoder's transform.

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
    """Return what the head of a classifier reads of the tokens, at each place: the first one, or their mean.

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
