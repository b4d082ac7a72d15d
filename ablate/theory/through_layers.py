"""Through the layers of a model: the token kernel behind each, and the gradient in front of each on the way back.

Layer by layer, or, in a deep model whose layers differ smoothly, by strides (`theory/strides.py`). What is carried is
the logarithm of each token's mean square, that of 1 - cosine of each pair of tokens, and each token's mean over its
channels in units of its size: exponential growth, decay and collapse are straight lines of these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Catalogue
from ablate.block.cross import encoder_block
from ablate.block.expression import Block, Node, walk
from ablate.block.layers import has_patterns
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.signal.attention_start import AttentionStart
from ablate.signal.propagation import Array, Signal, transferred
from ablate.theory.blocks import in_all_layers, own_part, profiles, through_block
from ablate.theory.elsewhere import Elsewhere, InsideValue, ValuesRead, reads_values
from ablate.theory.intervals import LayerScatter, gradient_variance
from ablate.theory.strides import strides

FEWEST = 128
"""The fewest layers that are gone through by strides."""
ALIKE = 1e-7
"""The least 1 - cosine that is told from 0."""
AT_REST = 1e-9
"""Layers in front of which the numbers that are carried differ by less are one."""
NOTHING = 1e-200
"""The least mean square of a token, over the largest of all, that is told from 0."""
NO_GRADIENT, NO_GRADIENT_CARRIED = 1e-8, 1e-12
"""The mean square of a token's gradient, over the largest of all, that no number of the model follows from, and the
least that is carried."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The `kernels` Σ_l [T, T] behind the embedding (l = 0) and each layer, and the way back.

    `kept` is the transfer from the embedding to the end. Layers that are not among the `computed` are between those
    that are, and within a few parts in a thousand. `scatter` is what the computed ones do to variances, and `attention`
    theirs, in their order; `sampled` names components whose numbers are means of samples. From the kernel of a gradient
    behind the last layer, `backward` gives the gradients behind each layer.
    """

    kernels: tuple[Array, ...]
    kept: Array | None
    mean: Array
    computed: frozenset[int]
    scatter: Mapping[int, LayerScatter]
    attention: tuple[AttentionStart, ...]
    sampled: tuple[str, ...]
    backward: Callable[[Array], Gradients]


@dataclass(frozen=True, slots=True)
class Gradients:
    """The mean squares and mean cosines of the gradient behind each layer, from l = 0 on.

    Cosines are Γ_ij / √((Γ_ii + ν) (Γ_jj + ν)), ν `NO_GRADIENT` of the largest, so that tokens that are left without a
    gradient have none with others. `variances` is what layers add to that of the log of the mean square, of those that
    were computed on the way back.
    """

    mean_squares: tuple[float, ...]
    cosines: tuple[float, ...]
    variances: Mapping[int, float]


@dataclass(frozen=True)
class _Model:
    block: Block
    sizes: Sizes
    init: Node
    catalogue: Catalogue
    elsewhere: Elsewhere
    encodes: bool

    def layer(self, layer: int, kernel: Array, mean: Array) -> Signal:
        """Return the signal behind a layer (from 1), from its root in front of it."""
        root, at = Signal.root(kernel, mean, self.sizes.d_model), self.sizes.at(layer)
        if self._made is not None:
            return self._made(root, layer)
        return through_block(self._in(at), root, at, self.init, self.catalogue, self.elsewhere)

    @cached_property
    def _made(self) -> Callable[[Signal, int], Signal] | None:
        """The block as it is in all layers; None if it is not the same in all."""
        if profiles(self.block, self.catalogue) or _by_layer(self.block, self.catalogue):
            return None
        block = self._in(self.sizes.at(1))
        if reads_values(block):
            return None
        return in_all_layers(block, self.sizes, self.init, self.catalogue, self.elsewhere)

    def _in(self, sizes: Sizes) -> Block:
        return encoder_block(self.block, sizes, self.catalogue) if self.encodes else self.block


def through_layers(
    block: Block,
    start: Signal,
    sizes: Sizes,
    init: Node,
    catalogue: Catalogue,
    repetition: Array | None,
    encoder: InsideValue | None = None,
    *,
    encodes: bool = False,
) -> Layers:
    """Go through all layers of a block from a stream in front of the first.

    `repetition` is how likely two tokens are the same, [T, T]; None where tokens are not read. `encoder` is what a
    decoder reads beside them; layers of the encoder itself, which `encodes`, are the block without what reads it.

    Raises InputError for a component that does not say what it does to a token kernel.
    """
    at = map(sizes.at, range(1, sizes.n_layers + 1) if reads_values(block) else ())
    blocks = [encoder_block(block, each, catalogue) if encodes else block for each in at]
    read = ValuesRead.of_layers(blocks, sizes, catalogue)
    model = _Model(block, sizes, init, catalogue, Elsewhere(read, repetition, encoder=encoder), encodes)
    if profiles(block, catalogue):  # a first pass, from what it measures parameters start in the second
        _one_by_one(model, start)
        return _one_by_one(replace(model, elsewhere=model.elsewhere.again()), start)
    if sizes.n_layers >= FEWEST and not (_by_layer(block, catalogue) or any(read.of_layer.values())):
        through = _by_strides(model, start)
        if through is not None:
            return through
    return _one_by_one(model, start)


def _by_layer(block: Block, catalogue: Catalogue) -> bool:
    """Return whether a block may jump from one layer to the next: it has patterns, or arithmetic that names `layer`."""
    if has_patterns(block, catalogue):
        return True
    fields = [getattr(value, "value", value) for node in walk(block) for _, value in node.fields]
    return any(isinstance(value, Expression) and "layer" in value.names() for value in fields)


def _one_by_one(model: _Model, start: Signal) -> Layers:
    streams, length = [start], model.sizes.seq_len
    for layer in range(1, model.sizes.n_layers + 1):
        streams.append(model.layer(layer, streams[-1].kernel, streams[-1].mean))

    def backward(gradient: Array) -> Gradients:
        gradients, variances = [gradient], dict[int, float]()
        for layer in range(model.sizes.n_layers, 0, -1):
            gradients.append(streams[layer].backward(gradients[-1]))
            behind, before = gradients[-2:]
            variances[layer] = gradient_variance(behind, before, streams[layer].transfer, model.sizes)
        gradients.reverse()
        own = [own_part(each, length) for each in gradients]
        cosines = _mean_cosines(np.stack([_state(each, np.zeros(length)) for each in own]), length)
        return Gradients(tuple(float(np.diag(each).mean()) for each in own), cosines, variances)

    return Layers(
        tuple(own_part(stream.kernel, length) for stream in streams),
        reduce(_then, (stream.transfer for stream in streams)),
        streams[-1].mean,
        frozenset(range(len(streams))),
        {layer: LayerScatter.of(streams[layer - 1].kernel, streams[layer], length) for layer in range(1, len(streams))},
        _attention(dict(enumerate(streams[1:], 1))),
        tuple(sorted(model.elsewhere.sampled)),
        backward,
    )


def _by_strides(model: _Model, start: Signal) -> Layers | None:
    """Return None where a token has no size, or one that is not finite."""
    layers, signals, scatter = model.sizes.n_layers, dict[int, Signal](), dict[int, LayerScatter]()

    def forth(layer: int, state: Array) -> Array:
        kernel, mean = _kernel_and_mean(state)
        try:
            behind = signals[layer + 1] = model.layer(layer + 1, kernel, mean)
        except InputError:  # it may be that only what was predicted is refused: one by one it will show
            return np.full_like(state, np.nan)
        scatter[layer + 1] = LayerScatter.of(kernel, behind, len(mean))
        return _state(behind.kernel, behind.mean)

    with np.errstate(all="ignore"):
        through = strides(forth, _state(start.kernel, start.mean), layers)
    if not np.isfinite(through.states).all():
        return None
    for layer in set(signals) - through.computed:
        del signals[layer], scatter[layer]

    def signal_of(layer: int) -> Signal:
        if layer not in signals:
            near, state = min(signals, key=lambda other: abs(other - layer)), through.states[layer - 1]
            if np.abs(state - through.states[near - 1]).max() < AT_REST:  # layers are one map, of what is in front
                signals[layer] = signals[near]
            else:
                signals[layer] = model.layer(layer, *_kernel_and_mean(state))
        return signals[layer]

    def backward(gradient: Array) -> Gradients:
        length, variances = len(gradient), dict[int, float]()

        def back(behind: int, state: Array) -> Array:
            """Go from the gradient behind a layer to that in front of it, at a size of 1: it is linear."""
            layer, size = layers - behind, state[:length].max()
            kernel, mean = _kernel_and_mean(np.concatenate([state[:length] - size, state[length:]]))
            arrived = signal_of(layer).backward(kernel)
            variances[layer] = gradient_variance(kernel, arrived, signals[layer].transfer, model.sizes)
            state = _state(arrived, mean, NO_GRADIENT_CARRIED)
            state[:length] += size
            return state

        with np.errstate(all="ignore"):
            known = {layers - layer for layer in signals}
            way = strides(back, _state(gradient, np.zeros(length), NO_GRADIENT_CARRIED), layers, cheap=known)
            states = way.states[::-1]
            if not np.isfinite(states).all():
                return _one_by_one(model, start).backward(gradient)
            squares = np.exp(states[:, :length]).mean(1)
        own = {layer: variances[layer] for layer in (layers - behind + 1 for behind in way.computed if behind)}
        return Gradients(tuple(squares.tolist()), _mean_cosines(states, length), own)

    kernels = (start.kernel, *(_kernel_and_mean(state)[0] for state in through.states[1:]))
    kept = _kept(start, signals, layers)
    attention = _attention(signals)
    sampled = tuple(sorted(model.elsewhere.sampled))
    return Layers(kernels, kept, signals[layers].mean, through.computed, scatter, attention, sampled, backward)


def _attention(signals: Mapping[int, Signal]) -> tuple[AttentionStart, ...]:
    """Return the attention of the layers behind which signals stand, in their order: none, one or more of each."""
    return tuple(replace(each, layer=layer) for layer in sorted(signals) for each in signals[layer].attention)


def _state(kernel: Array, mean: Array, nothing: float = NOTHING) -> Array:
    """Return what is carried from layer to layer: T + T (T - 1) / 2 + T numbers."""
    squares = np.maximum(np.diag(kernel), nothing * np.diag(kernel).max())
    with np.errstate(all="ignore"):
        size, (first, second) = np.sqrt(squares), _pairs(len(kernel))
        apart = 1 - kernel[first, second] / (size[first] * size[second])
        return np.concatenate([np.log(squares), np.log(np.maximum(apart, ALIKE)), mean / size])


def _mean_cosines(states: Array, length: int) -> tuple[float, ...]:
    """Return the mean cosines of the `Gradients` of states, [layers + 1, numbers]; NaN for one token."""
    if length < 2:
        return (np.nan,) * len(states)
    squares = np.exp(states[:, :length] - states[:, :length].max(1, keepdims=True))
    weights, (first, second) = np.sqrt(squares / (squares + NO_GRADIENT)), _pairs(length)
    cosines = weights[:, first] * weights[:, second] * (1 - np.exp(states[:, length:-length]))
    return tuple(cosines.mean(1).tolist())


def _kernel_and_mean(state: Array) -> tuple[Array, Array]:
    length = round((np.sqrt(9 + 8 * len(state)) - 3) / 2)
    size = np.exp(state[:length] / 2)
    cosines = np.append(1 - np.exp(state[length:-length]), 1.0)
    return cosines[_place(length)] * np.outer(size, size), state[-length:] * size


@functools.lru_cache(maxsize=4)
def _pairs(length: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(length, 1)


@functools.lru_cache(maxsize=4)
def _place(length: int) -> NDArray[np.intp]:
    """Return the place of each pair of tokens among `_pairs`, [T, T]; that behind the last for a token and itself."""
    first, second = _pairs(length)
    place = np.full((length, length), len(first), dtype=np.intp)
    place[first, second] = place[second, first] = np.arange(len(first))
    return place


def _kept(start: Signal, signals: Mapping[int, Signal], layers: int) -> Array | None:
    """Return the transfer through all layers; one between those computed has that of the next computed one."""
    kept, before = start.transfer, 0
    for layer in sorted(signals):
        transfer = signals[layer].transfer
        for _ in range(layer - before):
            kept = _then(kept, transfer)
        before = layer
    return kept


def _then(before: Array | None, after: Array | None) -> Array | None:
    """Return the transfer of two maps, one after the other."""
    return None if before is None else transferred(after, before)
